// Package endpointpicker answers gateways that ask, for each request to a pool of
// engines, where it shall go: the endpoint picker of the Gateway API Inference
// Extension, which Envoy and gateways made from it ask by their ext_proc filter.
//
//	p, err := endpointpicker.New(endpointpicker.Config{Scheduler: s})
//	server := grpc.NewServer(endpointpicker.ServerOptions()...)
//	p.Register(server)
//
// The gateway sends what the client asks for; the picker has the scheduler book a
// rank, at once or when the request's turn comes, and answers with the address of its
// worker. The booking lives as long as the gateway's stream, which ends with the
// response or when the client leaves.
//
// # Addresses
//
// The protocol knows addresses, and the scheduler's constraints know workers: one
// address must be one worker. Several ports of one host are several workers. A worker
// with more than one rank is fine where Config.Endpoint adds the header by which the
// engine is told the rank.
//
// # What the gateway must be set to
//
// The response must be seen to its end, in its body or in its trailers; see
// docs/endpointpicker.md in the repository, which has a file for Envoy that works.
package endpointpicker
