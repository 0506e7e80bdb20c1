module github.com/seed-3c5df8a4/turnstile/stress

go 1.25

require (
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/seed-3c5df8a4/turnstile/bench v0.0.0
)

require (
	github.com/cockroachdb/datadriven v1.0.3 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)

replace (
	github.com/seed-3c5df8a4/turnstile => ../
	github.com/seed-3c5df8a4/turnstile/bench => ../bench
)
