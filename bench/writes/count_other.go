//go:build !linux || !amd64

package main

import "errors"

func runTraced() bool { return false }

func count() ([]row, error) { return nil, errors.New("works on linux/amd64 only") }
