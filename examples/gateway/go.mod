module github.com/seed-3c5df8a4/turnstile/examples/gateway

go 1.25

require (
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace github.com/seed-3c5df8a4/turnstile => ../../
