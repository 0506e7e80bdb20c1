module github.com/seed-3c5df8a4/turnstile/stress

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/cockroachdb/datadriven v1.0.3
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/seed-3c5df8a4/turnstile/bench v0.0.0
	github.com/seed-3c5df8a4/turnstile/integrations/replicas v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/term v0.45.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
)

replace (
	github.com/seed-3c5df8a4/turnstile => ../
	github.com/seed-3c5df8a4/turnstile/bench => ../bench
	github.com/seed-3c5df8a4/turnstile/integrations/replicas => ../integrations/replicas
	github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded => ../integrations/replicas/embedded
)
