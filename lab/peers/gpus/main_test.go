package main

import (
	"io"
	"strings"
	"testing"
)

// Two devices group their rows, and all rows are in the merged groups.
func TestRun(t *testing.T) {
	var out strings.Builder
	args := []string{"-device", "cpu", "-rows", "20000", "-groups", "300", "-runs", "1"}
	if err := run(args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "G rows/s"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, out.String())
	}
	if err := run([]string{"-device", "none"}, io.Discard, io.Discard); err == nil {
		t.Error("no such device, and no error")
	}
}
