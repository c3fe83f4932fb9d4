//go:build !linux

package main

import "os"

func standardError() *os.File { return os.Stderr }

// runLimited does nothing: only Linux has a practical limit of the memory of a process.
func runLimited() (status int, ran bool) { return 0, false }
