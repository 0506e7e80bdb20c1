package main

import (
	"fmt"
	"os"
)

func main() {
	if runTraced() {
		return
	}
	rows, err := count()
	if err != nil {
		fmt.Fprintln(os.Stderr, "writes:", err)
		os.Exit(1)
	}
	printTable(os.Stdout, rows)
}
