module github.com/seed-3c5df8a4/turnstile/stress

go 1.25

require (
	github.com/seed-3c5df8a4/turnstile v0.0.0
	github.com/seed-3c5df8a4/turnstile/bench v0.0.0
)

replace (
	github.com/seed-3c5df8a4/turnstile => ../
	github.com/seed-3c5df8a4/turnstile/bench => ../bench
)
