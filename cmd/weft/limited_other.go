//go:build !linux

package main

import "os"

func standardError() *os.File { return os.Stderr }

// runLimited does nothing: only Linux limits the memory of a process in a way
// that people use.
func runLimited() (status int, ran bool) { return 0, false }
