package main

import (
	"bytes"
	"strings"
	"testing"
)

// All reports have the initial total, whatever moves meanwhile, also in a second run.
func TestReports(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), &out, folder, 10_000, 30); err != nil {
			t.Fatal(err)
		}
		if want := strings.Repeat("10000 accounts have 10000000\n", 30); out.String() != want {
			t.Errorf("got\n%s", out.String())
		}
	}
}
