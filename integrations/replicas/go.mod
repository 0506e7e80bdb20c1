module github.com/seed-3c5df8a4/turnstile/integrations/replicas

go 1.25.0

require (
	github.com/nats-io/nats.go v1.53.1
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.8
)

require (
	github.com/klauspost/compress v1.18.5 // indirect
	github.com/nats-io/nkeys v0.4.15 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.49.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
)

require (
	github.com/seed-3c5df8a4/turnstile v0.0.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

replace github.com/seed-3c5df8a4/turnstile => ../../
