module github.com/seed-3c5df8a4/turnstile/bench

go 1.25.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/puzpuzpuz/xsync/v3 v3.5.1
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/seed-3c5df8a4/turnstile/integrations/replicas v0.0.0
	github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.19.0
	golang.org/x/sys v0.47.0
	golang.org/x/term v0.45.0
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.7.2-default-no-op // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nats-server/v2 v2.14.5 // indirect
	github.com/nats-io/nats.go v1.53.1 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
)

require (
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/arch v0.22.0
)

replace (
	github.com/seed-3c5df8a4/turnstile => ../
	github.com/seed-3c5df8a4/turnstile/integrations/replicas => ../integrations/replicas
	github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded => ../integrations/replicas/embedded
)
