module github.com/seed-3c5df8a4/turnstile

go 1.25
