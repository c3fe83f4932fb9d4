//go:build !linux && !windows

package spill

import "os"

func temporary(dir string) (*os.File, error) { return unnamed(dir) }

func inMemory(string) bool { return false }
