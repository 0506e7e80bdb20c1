//go:build unix

// Package cputime reads what processor time the process has used.
package cputime

import (
	"syscall"
	"time"
)

// Now returns the processor time the process has used, user and system.
func Now() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
