package endpointpicker

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// The services that can be asked for in a health check, besides that of ext_proc
// itself: whether the process runs, and whether it takes requests.
const (
	Liveness  = "liveness"
	Readiness = "readiness"
)

// HeaderMisconfigured is the metadata of a health check's answer that says what is
// wrong with how the gateway is set, see Stats.Misconfigured.
const HeaderMisconfigured = "x-turnstile-misconfigured"

// checks adds to the answers what the protocol of health checks has no place for.
type checks struct {
	*health.Server
	server *Server
}

// Check answers a health check.
func (c *checks) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if wrong := c.server.misconfigured(); wrong != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs(HeaderMisconfigured, wrong)) // fails only outside of a call
	}
	return c.Server.Check(ctx, r)
}
