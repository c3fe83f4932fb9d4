package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// Every store must return correct results before its times mean anything, and has its rows.
func TestStores(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run([]string{"-n", "2000", "-batch", "256", "-runs", "1", "-disk", dir, "-memory", dir, "-json"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(Stores()) * len(workloads); len(rep.Rows) != want {
		t.Fatalf("%d rows, want %d", len(rep.Rows), want)
	}
	for _, r := range rep.Rows {
		if r.OpsPerS <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Speedup <= 0 || (r.Store == "gphash") != (r.Speedup == 1) {
			t.Errorf("row %+v", r)
		}
	}
	out.Reset()
	if err := run([]string{"-n", "200", "-runs", "1", "-disk", dir, "-memory", dir}, &out, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "bbolt, no sync") || !strings.Contains(out.String(), "power failure") {
		t.Errorf("table:\n%s", &out)
	}
	for _, args := range [][]string{{"-n", "0"}, {"-batch", "0"}, {"-runs", "0"}, {"-nonsense"}} {
		if err := run(args, &out, &out); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// forgetful loses every update.
type forgetful struct{ Store }

func (f forgetful) Put(ctx context.Context, keys, values []byte) error {
	found := make([]bool, len(keys)/keySize)
	if err := f.Get(ctx, keys, bytes.Clone(values), found); err != nil {
		return err
	}
	for i, there := range found {
		if there {
			continue
		}
		if err := f.Store.Put(ctx, key(keys, i), value(values, i)); err != nil {
			return err
		}
	}
	return nil
}

func TestWrongAnswersAreErrors(t *testing.T) {
	kind := Stores()[3]
	honest := kind.New
	kind.New = func(dir string, n int) (Store, error) {
		s, err := honest(dir, n)
		return forgetful{s}, err
	}
	if _, err := kind.run(t.Context(), Place{"disk", t.TempDir(), false}, 500, 100, 1); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("error %v", err)
	}
}
