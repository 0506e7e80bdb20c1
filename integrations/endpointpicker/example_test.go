package endpointpicker_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func Example() {
	s, err := sched.New(sched.Config{BlockSize: 16})
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "10.0.0.1:8000"}); err != nil {
		panic(err)
	}

	picker, err := endpointpicker.New(endpointpicker.Config{Scheduler: s, BlockSize: 16, Fallbacks: 1})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(endpointpicker.ServerOptions()...) // and grpc.Creds
	picker.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the gateway is told this address
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()

	// When the process is told to stop:
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = picker.Drain(ctx)
	server.Stop()
	fmt.Println(err, picker.Stats().Open)
	// Output: <nil> 0
}
