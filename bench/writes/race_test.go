//go:build race

package main

// instrumented: the race detector is in this program.
const instrumented = true
