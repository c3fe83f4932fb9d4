package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both implementations find the same triangles, and the report shows their number.
func TestRun(t *testing.T) {
	var list strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		fmt.Fprintln(&list, r.IntN(200), r.IntN(200), 1)
	}
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"-runs", "1", "-json", path}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Vertices != 200 || got.Triangles == 0 || len(got.Rows) != 4 || got.Rows[3].Gonum <= 0 || got.Rows[3].Weft <= 0 {
		t.Errorf("%+v", got)
	}
	out.Reset()
	if err := run([]string{"-runs", "1", path}, &out, io.Discard); err != nil || !strings.Contains(out.String(), "weft is ahead") {
		t.Errorf("%v: %s", err, &out)
	}
	for _, args := range [][]string{{}, {path, path}, {"-runs", "0", path}, {path + "x"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
