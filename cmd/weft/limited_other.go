//go:build !linux

package main

import "os"

func standardError() *os.File { return os.Stderr }

// runLimited does nothing, because only Linux effectively limits the memory of a process.
func runLimited() (status int, ran bool) { return 0, false }
