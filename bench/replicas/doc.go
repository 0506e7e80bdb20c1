// Package replicas measures several schedulers that count each other's load over real
// NATS servers, clustered on loopback: how soon a booking is visible at the peers, what
// a message costs, and how often two book the same idle rank, with and without.
package replicas
