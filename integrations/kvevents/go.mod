module github.com/seed-3c5df8a4/turnstile/integrations/kvevents

go 1.25

require (
	github.com/dchest/siphash v1.2.3
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/vmihailenco/msgpack/v5 v5.4.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

replace github.com/seed-3c5df8a4/turnstile => ../../
