package sched_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	const path = "github.com/seed-3c5df8a4/turnstile"
	program := debug.Module{Path: "example.com/program", Version: "v9.0.0"}
	other := &debug.Module{Path: path + "/integrations/otel", Version: "v0.3.0"}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"nothing recorded":      {nil, "unknown"},
		"not in the program":    {&debug.BuildInfo{Main: program, Deps: []*debug.Module{other}}, "unknown"},
		"a release":             {&debug.BuildInfo{Main: program, Deps: []*debug.Module{other, {Path: path, Version: "v0.1.0"}}}, "v0.1.0"},
		"a fork":                {&debug.BuildInfo{Main: program, Deps: []*debug.Module{{Path: path, Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.2.0"}}}}, "v0.2.0"},
		"a checkout beside":     {&debug.BuildInfo{Main: program, Deps: []*debug.Module{{Path: path, Version: "v0.1.0", Replace: &debug.Module{Path: "../turnstile"}}}}, "(devel)"},
		"a test of this module": {&debug.BuildInfo{Main: debug.Module{Path: path}}, "(devel)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, sched.VersionIn(test.info))
		})
	}
	require.NotEmpty(t, newScheduler(t, sched.Config{}).Stats().Version)
}
