package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Processes that run starts are this test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		main()
		return
	}
	os.Exit(m.Run())
}

// All available peers agree in all jobs. An absent one gives the reason.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-rows=20000", "-groups=1,3,5000", "-runs=2", "-cores=1", "-json"}
	if err := run(args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want := 14 * len(Peers()); len(got.Rows) != want || got.Runs != 2 {
		t.Fatalf("%d rows, want %d", len(got.Rows), want)
	}
	for _, r := range got.Rows {
		timed := len(r.TimesMS) == 2 && r.FirstMS == r.TimesMS[0] && r.FirstMS > 0
		ordered := r.FirstMS <= r.MaxMS && r.MedianMS <= r.MaxMS && r.Cores == 1
		ours := (r.First > 0) == (r.Peer == weftName) && (r.Median > 0) == (r.First > 0)
		optional := r.Peer == "DuckDB" || strings.HasPrefix(r.Peer, "Polars")
		if !ordered || !ours || timed == (r.Skipped != "") || r.Skipped != "" && !optional {
			t.Errorf("%+v", r)
		}
	}
	out.Reset()
	args = []string{"-rows=2000", "-groups=7", "-runs=1", "-job=join", "-peer=maps,weft", "-cores=1,2"}
	if err := run(args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "\n") != 5 || strings.Count(text, "partitioned Go maps") != 2 {
		t.Errorf("prints\n%s", text)
	}
}

func TestErrors(t *testing.T) {
	for _, args := range [][]string{{"-rows=3"}, {"-runs=0"}, {"-groups=7,x"}, {"-groups=0"}, {"-cores=0"},
		{"-rows=20", "-child=0", "-peer=nobody"}, {"-nothing"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}

// Rows of Compare have the first run, the median and the maximum. Weft's row has the ratios to its
// best rival.
func TestCompare(t *testing.T) {
	all := []Peer{{Name: "Go map"}, {Name: "a", Rival: true}, {Name: weftName},
		{Name: "b", Rival: true}, {Name: "c", Skip: func() string { return "not here" }}}
	times := map[string][]float64{
		"Go map": {1, 1, 1}, "a": {8, 30, 20}, weftName: {2, 9, 5}, "b": {12, 10, 10}}
	process := func(p Peer) (Measured, error) {
		return Measured{times[p.Name], 77, Result{Rows: 1}}, nil
	}
	rows, err := Compare(Job{Name: "x"}, all, 1, process)
	if err != nil {
		t.Fatal(err)
	}
	want := Row{Job: "x", Cores: 1, Peer: weftName, TimesMS: times[weftName], FirstMS: 2,
		MedianMS: 5, MaxMS: 9, Peak: 77, First: 4, Median: 2}
	if !reflect.DeepEqual(rows[2], want) || rows[4].Skipped != "not here" {
		t.Errorf("%+v", rows)
	}
	_, err = Compare(Job{}, all, 1, func(p Peer) (Measured, error) {
		return Measured{times[p.Name], 0, Result{Rows: len(p.Name)}}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "a {Rows:1") {
		t.Errorf("other results: %v", err)
	}
}

// Different results in the runs of a peer are an error.
func TestMeasureCompares(t *testing.T) {
	n := 0
	w := Work{
		Run:    func() error { n++; return nil },
		Result: func() (Result, error) { return Result{Rows: n / 3}, nil },
	}
	if m, err := w.measure(2); err != nil || len(m.TimesMS) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	n = 0
	if _, err := w.measure(3); err == nil || !strings.Contains(err.Error(), "run 2 finds") {
		t.Errorf("%v", err)
	}
}

// The compared results are those of plain loops.
func TestResults(t *testing.T) {
	texts := func(all ...string) *text {
		x := &text{offsets: []int64{0}}
		for _, s := range all {
			x.data = append(x.data, s...)
			x.offsets = append(x.offsets, int64(len(x.data)))
		}
		return x
	}
	keys, vals := []int64{1, 2, 2, 3}, []int64{10, 20, 30, 40}
	groups := Result{Rows: 3, A: 4, B: 100, C: 1 + 4 + 1}
	for _, c := range []struct {
		job  Job
		want Result
	}{
		{Job{Does: "group", Columns: Columns{Left: keys, Values: vals}}, groups},
		{Job{Does: "group", Batches: 3, Columns: Columns{Left: keys, Values: vals}}, groups},
		{Job{Does: "words", Columns: Columns{Values: vals,
			Texts: []*text{texts("a", "ab", "ab", "a"), texts("bc", "c", "c", "b")}}}, groups},
		{Job{Does: "distinct", Columns: Columns{Left: keys, Values: vals}}, Result{Rows: 3}},
		{Job{Does: "dedup", Columns: Columns{Texts: []*text{texts("x y", "x", "x", "x y")}}},
			Result{Rows: 2}},
		{Job{Does: "join", Columns: Columns{Left: keys, Right: []int64{2, 3, 2, 9}}},
			Result{Rows: 5, A: 1 + 1 + 2 + 2 + 3, B: 0 + 2 + 0 + 2 + 1, C: 0 + 2 + 0 + 4 + 3}},
	} {
		c.job.Rows = len(keys)
		for _, p := range Peers() {
			if p.Skip != nil && p.Skip() != "" {
				continue
			}
			if got, err := once(p, c.job); err != nil || got != c.want {
				t.Errorf("%s, %s: %+v, %v; want %+v", c.job.Does, p.Name, got, err, c.want)
			}
		}
	}
}

func once(p Peer, j Job) (Result, error) {
	w, err := p.Load(j)
	if err != nil {
		return Result{}, err
	}
	m, err := w.measure(2)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return m.Result, err
}

// Every draw returns the same columns. A group in batches has the rows of the group with the same
// number of keys.
func TestDraws(t *testing.T) {
	of := make(map[string]Columns)
	for _, j := range Jobs(20_000, []int{100, 1000}, 7) {
		c := j.draw()
		if !reflect.DeepEqual(c, j.draw()) {
			t.Errorf("%s differs the second time", j.Name)
		}
		of[fmt.Sprint(j.Name, j.Keys)] = c
	}
	if !reflect.DeepEqual(of["group in batches1000"], of["group1000"]) {
		t.Error("a group in batches has other rows")
	}
	const n = 200_000
	counts := make(map[int64]float64)
	for _, k := range drawZipf(n, 1000, 1) {
		counts[k]++
	}
	for _, k := range []int64{1, 2, 10} { // the sum of 1/k up to 1000 is 7.4855
		want := n / 7.4855 / float64(k)
		if math.Abs(counts[k]-want) > 5*math.Sqrt(want) {
			t.Errorf("%.0f of %d Zipf keys are %d, want %.0f", counts[k], n, k, want)
		}
	}
}
