module github.com/seed-3c5df8a4/turnstile/examples/endpointpicker

go 1.25.0

replace (
	github.com/seed-3c5df8a4/turnstile => ../../
	github.com/seed-3c5df8a4/turnstile/examples/gateway => ../gateway
	github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker => ../../integrations/endpointpicker
	github.com/seed-3c5df8a4/turnstile/integrations/kvevents => ../../integrations/kvevents
	github.com/seed-3c5df8a4/turnstile/integrations/prometheus => ../../integrations/prometheus
	github.com/seed-3c5df8a4/turnstile/integrations/replicas => ../../integrations/replicas
	github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded => ../../integrations/replicas/embedded
)

require (
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/seed-3c5df8a4/turnstile/examples/gateway v0.0.0
	github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.84.0
)

require (
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/go-control-plane/envoy v1.39.0 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
