package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// All peers that are there agree in all jobs; one that is not says why.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-rows=20000", "-groups=1,3,5000", "-runs=2", "-json"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want := 7 * len(Peers()); len(got.Rows) != want || got.Cores < 1 || got.Runs != 2 {
		t.Fatalf("%d rows on %d cores, want %d", len(got.Rows), got.Cores, want)
	}
	for _, r := range got.Rows {
		timed := r.MS > 0 && r.LeastMS <= r.MS && r.MS <= r.MostMS && r.Speedup > 0
		if timed == (r.Skipped != "") || r.Skipped != "" && r.Peer != "DuckDB" {
			t.Errorf("%+v", r)
		}
	}
	out.Reset()
	if err := run([]string{"-rows=2000", "-groups=7", "-runs=1", "-job=join"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "partitioned sorting") || strings.Contains(text, "group") {
		t.Errorf("prints\n%s", text)
	}
}

func TestErrors(t *testing.T) {
	for _, args := range [][]string{{"-rows=3"}, {"-runs=0"}, {"-groups=7,x"}, {"-groups=0"}, {"-nothing"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}

// A peer that finds something else is an error that says what.
func TestMeasureCompares(t *testing.T) {
	j := Jobs(100, []int{7}, 1)[0]
	wrong := Peer{Name: "wrong", Load: func(Job) (Work, error) {
		return Work{
			Run: func() error { return nil }, Result: func() (Result, error) { return Result{Rows: 1}, nil }, Close: func() error { return nil },
		}, nil
	}}
	if _, err := Measure(j, []Peer{Peers()[0], wrong}, 1); err == nil || !strings.Contains(err.Error(), "wrong {Rows:1") {
		t.Errorf("%v", err)
	}
}

// What is compared is what plain loops find.
func TestResults(t *testing.T) {
	j := Job{Name: "join", Left: []int64{1, 2, 2, 3}, Right: []int64{2, 3, 2, 9}}
	want := Result{Rows: 5, A: 1 + 1 + 2 + 2 + 3, B: 0 + 2 + 0 + 2 + 1, C: 0 + 2 + 0 + 4 + 3}
	for _, p := range Peers() {
		if p.Skip != "" {
			continue
		}
		w, err := p.Load(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Result(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", p.Name, got, err, want)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
