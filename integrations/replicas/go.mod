module github.com/seed-3c5df8a4/turnstile/integrations/replicas

go 1.25

require (
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.8
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/seed-3c5df8a4/turnstile => ../../
