// Package turnstileprom exports a scheduler's state to Prometheus.
//
//	s, err := sched.New(config)
//	prometheus.MustRegister(turnstileprom.New(s, turnstileprom.Config{Scheduler: "llama-70b"}))
//
// The collector reads Stats, Loads and Snapshot when it is scraped. It costs the
// scheduler nothing else, has no goroutine and keeps nothing. Metric names and units
// stand in the README beside this file, with a Grafana dashboard (dashboard.json)
// and alert rules (alerts.yaml) that use them.
package turnstileprom
