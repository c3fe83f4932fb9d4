package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Every peer must return correct results before its times mean anything.
func TestPeersAnswerRightly(t *testing.T) {
	b := newBatch(10_000, 3)
	for _, p := range Peers() {
		for _, cores := range []int{1, 2} {
			m, err := p.New(len(b.keys), cores)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if _, err := p.run(m, b, cores); err != nil {
				t.Errorf("%s, %d cores: %v", p.Name, cores, err)
			}
			if err := m.Close(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
}

// forgetful loses every second key.
type forgetful struct{ builtin }

func (f forgetful) Put(keys, vals []uint64) error {
	for i := 0; i < len(keys); i += 2 {
		f.builtin[keys[i]] = vals[i]
	}
	return nil
}

func TestWrongAnswersAreErrors(t *testing.T) {
	p := Peer{Name: "forgetful", New: func(int, int) (Map, error) { return forgetful{builtin{}}, nil }, OneWriter: true}
	if _, err := Measure(p, newBatch(100, 1), 1, 1); err == nil || !strings.Contains(err.Error(), "50 keys found, want 100") {
		t.Errorf("error %v", err)
	}
}

func TestMeasuresMemoryOnAndOffTheHeap(t *testing.T) {
	b := newBatch(200_000, 1)
	for _, p := range Peers()[:2] {
		row, err := Measure(p, b, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if row.BytesPerEntry < 16 || row.BytesPerEntry > 64 {
			t.Errorf("%s takes %.1f bytes for 16 of key and value", p.Name, row.BytesPerEntry)
		}
	}
}

func TestSpeedupsAreOverTheBuiltinMap(t *testing.T) {
	rows := []Row{
		{Peer: "builtin map", N: 10, Cores: 1, InsertNS: 40, HitNS: 30, MissNS: 20},
		{Peer: "other", N: 10, Cores: 1, InsertNS: 20, HitNS: 60, MissNS: 20},
		{Peer: "other", N: 20, Cores: 1, InsertNS: 20, HitNS: 60, MissNS: 20},
	}
	compare(rows)
	if r := rows[1]; r.InsertSpeedup != 2 || r.HitSpeedup != .5 || r.MissSpeedup != 1 {
		t.Errorf("speedups %+v", r)
	}
	if rows[2].HitSpeedup != 0 {
		t.Errorf("speedup over a map of another size: %+v", rows[2])
	}
}

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "1000,2000", "-runs", "1", "-peer", "weft", "-json"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if want := 2 * 2 * min(allCores(), 2); len(rep.Rows) != want || rep.Rows[1].HitSpeedup <= 0 {
		t.Errorf("%d rows, want %d: %+v", len(rep.Rows), want, rep.Rows)
	}
	out.Reset()
	if err := run([]string{"-n", "1000", "-runs", "1", "-peer", "weft"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "weft linear") || !strings.Contains(out.String(), "hit x") {
		t.Errorf("table:\n%s", &out)
	}
	for _, args := range [][]string{{"-n", "0"}, {"-n", "x"}, {"-runs", "0"}, {"-nonsense"}} {
		if err := run(args, &out, &out); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// BenchmarkPeers is the same comparison for benchstat: ns/op is per key.
func BenchmarkPeers(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		var keys *batch // made when the first benchmark of its size runs
		for _, cores := range []int{1, allCores()} {
			for _, p := range Peers() {
				name := func(op string) string {
					return fmt.Sprintf("op=%s/n=%d/cores=%d/map=%s", op, n, cores, strings.ReplaceAll(p.Name, " ", "_"))
				}
				if keys == nil {
					keys = newBatch(n, 1)
				}
				benchmarkPeer(b, p, keys, cores, name)
			}
			if allCores() == 1 {
				break
			}
		}
	}
}

func benchmarkPeer(b *testing.B, p Peer, keys *batch, cores int, name func(op string) string) {
	n := len(keys.keys)
	perKey := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
	}
	filled := func(b *testing.B) Map {
		m, err := p.New(n, cores)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.put(m, cores, keys.keys, keys.vals); err != nil {
			b.Fatal(err)
		}
		return m
	}
	closeMap := func(b *testing.B, m Map) {
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(name("insert"), func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			m, err := p.New(n, cores)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := p.put(m, cores, keys.keys, keys.vals); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			closeMap(b, m)
			b.StartTimer()
		}
		perKey(b)
	})
	for _, q := range []struct {
		op   string
		keys []uint64
	}{{"hit", keys.hits}, {"miss", keys.misses}} {
		b.Run(name(q.op), func(b *testing.B) {
			m := filled(b)
			defer closeMap(b, m)
			for b.Loop() {
				if _, err := p.get(m, cores, q.keys, keys.out, keys.found); err != nil {
					b.Fatal(err)
				}
			}
			perKey(b)
		})
	}
}
