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
	if want := 2 * len(Stores()) * len(jobs); len(rep.Rows) != want {
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
	for _, args := range [][]string{{"-n", "0"}, {"-batch", "0"}, {"-runs", "0"}, {"-pairs", "0"}, {"-log", "-1"}, {"-nonsense"}} {
		if err := run(args, &out, &out); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

func TestMaps(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-maps", "-n", "2000", "-batch", "256", "-runs", "1", "-pairs", "3000", "-log", "100000", "-disk", t.TempDir()}
	if err := run(append(args, "-json"), &out, &out); err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, x := range Comparisons() {
		want += len(x.stores) * len(x.jobs)
	}
	if len(rep.Rows) != want {
		t.Errorf("%d rows, want %d", len(rep.Rows), want)
	}
	for _, r := range rep.Rows {
		if r.OpsPerS <= 0 || r.P99 < r.P50 || r.Speedup <= 0 {
			t.Errorf("row %+v", r)
		}
	}
	// The checkpoint and the log hold 16 bytes of each pair at least. At the peak the old and the
	// new checkpoint are there.
	r := rep.Restart
	if r == nil || r.Pairs != 3000 || r.Bytes < 148_000 || r.OpenS <= 0 || r.ReadS <= 0 || r.CheckpointS <= 0 || r.DuringS <= 0 || r.LoadS <= 0 || r.Rest < 1 || r.Peak < r.Rest {
		t.Errorf("restart %+v", r)
	}
	out.Reset()
	if err := run(args, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"durable, EveryBatch", "Put, 64 goroutines", "GetOrPut", "map without a log", "read/open"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in:\n%s", part, &out)
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
		if err := f.Store.Put(ctx, key(keys, i), value(values, i, len(found))); err != nil {
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
	at, z := Place{"disk", t.TempDir(), false}, sizes{n: 500, batch: 100, runs: 1, seed: 1}
	if _, err := (comparison{jobs: jobs, valueSize: valueSize}).run(t.Context(), kind, at, z); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("error %v", err)
	}
	// A store that is empty when it is opened again has lost all records.
	x := Comparisons()[3]
	kind, x.jobs = x.stores[1], x.jobs[:1]
	if _, err := x.run(t.Context(), kind, at, z); err != nil {
		t.Fatal(err)
	}
	kind.Reopens = true
	if _, err := x.run(t.Context(), kind, at, z); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("error %v", err)
	}
}
