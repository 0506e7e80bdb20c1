module github.com/seed-3c5df8a4/turnstile/bench

go 1.25

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/puzpuzpuz/xsync/v3 v3.5.1
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.19.0
	golang.org/x/sys v0.37.0
	golang.org/x/term v0.36.0
)

require (
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/arch v0.22.0
)

replace github.com/seed-3c5df8a4/turnstile => ../
