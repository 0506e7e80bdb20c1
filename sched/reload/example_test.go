package reload_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/reload"
)

// The scheduler starts with what the file holds, and follows it from then on.
func ExamplePolicy() {
	run := func(ctx context.Context, path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := policy.Parse(text)
		if err != nil {
			return err
		}
		s, err := sched.New(sched.Config{BlockSize: 16, Policy: file})
		if err != nil {
			return err
		}
		return reload.Policy(ctx, path, "", s, reload.Options{
			Current: text,
			Tell: func(e reload.Event) {
				if e.Err != nil {
					fmt.Println("the old policy stays:", e.Err)
				}
			},
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the program ends
	fmt.Println(run(ctx, "testdata/policy.yaml"))
	// Output: context canceled
}
