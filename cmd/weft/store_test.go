//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"

	"path/filepath"
	"slices"
	"strings"

	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
)

// storeKind is a kind of store with its content.
type storeKind struct {
	name  string
	holds string
	rows  int // as durable counts them
	// changes calls f with the structure of the store in a folder, which it opens and closes
	open func(t *testing.T, dir string, f func(m durable.Structure) error)
	// the first and the second half of the changes
	first, second func(ctx context.Context, m durable.Structure) error
	ordered       bool
	lines         []string // of a dump
	json          []string // of a dump with --json
}

func opened[M durable.Structure](empty func(dev device.Device) (M, error)) func(*testing.T, string,
	func(durable.Structure) error) {
	return func(t *testing.T, dir string, f func(m durable.Structure) error) {
		t.Helper()
		dev, err := cpu.Open(nil)
		must(t, err)
		defer dev.Close()
		m, err := durable.Open(t.Context(), dir, func() (M, error) { return empty(dev) },
			durable.Options{Sync: durable.OS})
		must(t, err)
		must(t, errors.Join(f(m), m.Close()))
	}
}

func on[M durable.Structure](f func(ctx context.Context, m M) error) func(context.Context,
	durable.Structure) error {
	return func(ctx context.Context, m durable.Structure) error { return f(ctx, m.(M)) }
}

func failure[T any](_ T, err error) error { return err }

func each(text ...string) []string { return text }

func mapKind[K weft.Key, V weft.Value](name, holds string, o *linear.Options, keys []K, vals []V,
	lines, json []string) storeKind {
	return storeKind{
		name: name, holds: holds, rows: len(keys), lines: lines, json: json,
		open: opened(func(dev device.Device) (*linear.Map[K, V], error) {
			return linear.New[K, V](dev, o)
		}),
		first: on(func(ctx context.Context, m *linear.Map[K, V]) error {
			return failure(m.Put(ctx, []K{keys[0], 99}, []V{vals[1], 1}))
		}),
		second: on(func(ctx context.Context, m *linear.Map[K, V]) error {
			return errors.Join(failure(m.Put(ctx, keys, vals)),
				failure(m.Delete(ctx, []K{99}, nil)))
		}),
	}
}

func setKind[K weft.Key](name, holds string, o *linear.Options, keys []K,
	lines, json []string) storeKind {
	return storeKind{
		name: name, holds: holds, rows: len(keys), lines: lines, json: json,
		open: opened(func(dev device.Device) (*linear.Set[K], error) {
			return linear.NewSet[K](dev, o)
		}),
		first: on(func(ctx context.Context, s *linear.Set[K]) error {
			return failure(s.Add(ctx, keys[:1], nil))
		}),
		second: on(func(ctx context.Context, s *linear.Set[K]) error {
			return failure(s.Add(ctx, keys, nil))
		}),
	}
}

func multiKind[K weft.Key, V weft.Value](name, holds string, o *slab.Options, keys []K, vals []V,
	lines, json []string) storeKind {
	return storeKind{
		name: name, holds: holds, rows: len(keys), lines: lines, json: json,
		open: opened(func(dev device.Device) (*slab.MultiMap[K, V], error) {
			return slab.NewMultiMap[K, V](dev, o)
		}),
		first: on(func(ctx context.Context, m *slab.MultiMap[K, V]) error {
			return failure(m.Put(ctx, append([]K{99, 99}, keys[:2]...),
				append([]V{1, 2}, vals[:2]...)))
		}),
		second: on(func(ctx context.Context, m *slab.MultiMap[K, V]) error {
			return errors.Join(failure(m.DeleteAll(ctx, []K{99}, nil)),
				failure(m.Put(ctx, keys[2:], vals[2:])))
		}),
	}
}

// orderedKind deletes the keys from 10 to 20 that it has put.
func orderedKind[K weft.Key, V weft.Value](name, holds string, keys []K, vals []V,
	lines, json []string) storeKind {
	return storeKind{
		name: name, holds: holds, rows: len(keys), lines: lines, json: json, ordered: true,
		open: opened(func(dev device.Device) (*ordered.Map[K, V], error) {
			return ordered.New[K, V](dev, nil)
		}),
		first: on(func(ctx context.Context, m *ordered.Map[K, V]) error {
			return failure(m.Put(ctx, []K{keys[0], 9, 10, 15, 20}, make([]V, 5)))
		}),
		second: on(func(ctx context.Context, m *ordered.Map[K, V]) error {
			return errors.Join(failure(m.DeleteRange(ctx, []K{10}, []K{20}, nil)),
				failure(m.Delete(ctx, []K{9}, nil)),
				failure(m.Put(ctx, keys, vals)))
		}),
	}
}

// weightedGraphKind inserts two edges and deletes one, and inserts the vertices 60 and 7.
func weightedGraphKind[W graph.Weight](name, holds string, rows int, o *graph.Options,
	from, to []uint32, weights []W, lines, json []string) storeKind {
	return storeKind{
		name: name, holds: holds, rows: rows, lines: lines, json: json,
		open: opened(func(dev device.Device) (*graph.WeightedGraph[W], error) {
			return graph.NewWeightedGraph[W](dev, o)
		}),
		first: on(func(ctx context.Context, g *graph.WeightedGraph[W]) error {
			return errors.Join(failure(g.Insert(ctx, append([]uint32{50}, from[:1]...),
				append([]uint32{51}, to[:1]...), append([]W{1}, weights[:1]...), nil)),
				failure(g.InsertVertices(ctx, []uint32{60, 7})))
		}),
		second: on(func(ctx context.Context, g *graph.WeightedGraph[W]) error {
			return errors.Join(failure(g.Insert(ctx, from[1:], to[1:], weights[1:], nil)),
				failure(g.DeleteVertices(ctx, []uint32{50, 51})))
		}),
	}
}

func storeKinds() []storeKind {
	nan, inf := math.NaN(), math.Inf(1)
	return []storeKind{
		mapKind("map", "a map of uint64 and uint64", nil, []uint64{7, math.MaxUint64},
			[]uint64{1, 2},
			each("7\t1", "18446744073709551615\t2"), each(`{"key":7,"value":1}`,
				`{"key":18446744073709551615,"value":2}`)),
		mapKind("map of floats", "a map of int32 and float64", nil, []int32{-7, 1, 2, 3},
			[]float64{.1, nan, -inf, 1e300},
			each("-7\t0.1", "1\tNaN", "2\t-Inf", "3\t1e+300"),
			each(`{"key":-7,"value":0.1}`, `{"key":1,"value":"NaN"}`, `{"key":2,"value":"-Inf"}`,
				`{"key":3,"value":1e+300}`)),
		mapKind("unordered map", "a map of uint32 and float32, unordered",
			&linear.Options{Unordered: true}, []uint32{1, 2}, []float32{.5, float32(inf)},
			each("1\t0.5", "2\t+Inf"), each(`{"key":1,"value":0.5}`, `{"key":2,"value":"+Inf"}`)),
		mapKind("map of int64", "a map of int64 and int32", nil, []int64{math.MinInt64, 1},
			[]int32{-1, 1},
			each("-9223372036854775808\t-1", "1\t1"),
			each(`{"key":-9223372036854775808,"value":-1}`, `{"key":1,"value":1}`)),
		setKind("set", "a set of int64", nil, []int64{-3, 4}, each("-3", "4"),
			each(`{"key":-3}`, `{"key":4}`)),
		setKind("small set", "a set of uint32, unordered", &linear.Options{Unordered: true},
			[]uint32{3, 4}, each("3", "4"), each(`{"key":3}`, `{"key":4}`)),
		multiKind("multimap", "a multimap of int32 and int64, unordered", nil, []int32{-1, 5, 5, 5},
			[]int64{9, 1, 1, -2},
			each("-1\t9", "5\t-2", "5\t1", "5\t1"), each(`{"key":-1,"value":9}`,
				`{"key":5,"value":-2}`, `{"key":5,"value":1}`, `{"key":5,"value":1}`)),
		multiKind("unordered multimap", "a multimap of uint64 and float32, unordered",
			&slab.Options{Unordered: true}, []uint64{1, 1}, []float32{-0.25, 1},
			each("1\t-0.25", "1\t1"), each(`{"key":1,"value":-0.25}`, `{"key":1,"value":1}`)),
		orderedKind("ordered map", "ordered map of int32 and uint32", []int32{2, -1, math.MinInt32},
			[]uint32{2, 1, 0},
			each("-2147483648\t0", "-1\t1", "2\t2"), each(`{"key":-2147483648,"value":0}`,
				`{"key":-1,"value":1}`, `{"key":2,"value":2}`)),
		orderedKind("ordered map of floats", "ordered map of int64 and float64", []int64{1, -5},
			[]float64{nan, 1e-9},
			each("-5\t1e-09", "1\tNaN"), each(`{"key":-5,"value":1e-09}`,
				`{"key":1,"value":"NaN"}`)),
		orderedKind("ordered map of uint64", "ordered map of uint64 and int32",
			[]uint64{math.MaxUint64, 1}, []int32{-1, 1},
			each("1\t1", "18446744073709551615\t-1"), each(`{"key":1,"value":1}`,
				`{"key":18446744073709551615,"value":-1}`)),
		weightedGraphKind("graph", "an undirected graph with float32 weights", 8, nil,
			[]uint32{0, 3, 1}, []uint32{1, 2, 0}, []float32{1, .5, float32(nan)},
			each("0\t1\tNaN", "2\t3\t0.5", "60", "7"), each(`{"from":0,"to":1,"weight":"NaN"}`,
				`{"from":2,"to":3,"weight":0.5}`, `{"vertex":60}`, `{"vertex":7}`)),
		weightedGraphKind("multigraph", "a directed multigraph with self loops and int64 weights",
			8, &graph.Options{Directed: true, SelfLoops: true, Multi: true},
			[]uint32{1, 1, 2}, []uint32{0, 0, 2}, []int64{-1, 3, 4}, each("1\t0\t-1", "1\t0\t3",
				"2\t2\t4", "60", "7"),
			each(`{"from":1,"to":0,"weight":-1}`, `{"from":1,"to":0,"weight":3}`,
				`{"from":2,"to":2,"weight":4}`, `{"vertex":60}`, `{"vertex":7}`)),
		weightedGraphKind("graph with uint64 weights", "a directed graph with uint64 weights", 7,
			&graph.Options{Directed: true, MaxVertices: math.MaxUint32},
			[]uint32{0, 5}, []uint32{1, 60}, []uint64{1, math.MaxUint64},
			each("0\t1\t1", "5\t60\t18446744073709551615",
				"7"),
			each(`{"from":0,"to":1,"weight":1}`, `{"from":5,"to":60,"weight":18446744073709551615}`,
				`{"vertex":7}`)),
		plainGraphKind(), slabGraphKind(), weightedSlabGraphKind(), stringsKind(), rowsKind(),
	}
}

func plainGraphKind() storeKind {
	return storeKind{
		name: "graph without weights", holds: "an undirected graph", rows: 4,
		open: opened(func(dev device.Device) (*graph.Graph, error) { return graph.New(dev, nil) }),
		first: on(func(ctx context.Context, g *graph.Graph) error {
			return failure(g.Insert(ctx, []uint32{4, 4}, []uint32{5, 6}, nil))
		}),
		second: on(func(ctx context.Context, g *graph.Graph) error {
			return failure(g.Delete(ctx, []uint32{6}, []uint32{4}, nil))
		}),
		lines: each("4\t5", "6"), json: each(`{"from":4,"to":5}`, `{"vertex":6}`),
	}
}

func slabGraphKind() storeKind {
	return storeKind{
		name: "table graph", holds: "an undirected graph, in tables", rows: 4,
		open: opened(func(dev device.Device) (*slab.Graph, error) {
			return slab.NewGraph(dev, nil)
		}),
		first: on(func(ctx context.Context, g *slab.Graph) error {
			return failure(g.Insert(ctx, []uint32{5, 6, 7}, []uint32{4, 4, 4}, nil))
		}),
		second: on(func(ctx context.Context, g *slab.Graph) error {
			return failure(g.Delete(ctx, []uint32{6}, []uint32{4}, nil))
		}),
		lines: each("4\t5", "4\t7"), json: each(`{"from":4,"to":5}`, `{"from":4,"to":7}`),
	}
}

func weightedSlabGraphKind() storeKind {
	type weighted = slab.WeightedGraph[int32]
	return storeKind{
		name: "weighted table graph", rows: 2,
		holds: "a directed graph with int32 weights, in tables",
		open: opened(func(dev device.Device) (*weighted, error) {
			return slab.NewWeightedGraph[int32](dev, &slab.GraphOptions{Directed: true})
		}),
		first: on(func(ctx context.Context, g *weighted) error {
			return failure(g.Insert(ctx, []uint32{5, 6}, []uint32{4, 4}, []int32{1, 2}, nil))
		}),
		second: on(func(ctx context.Context, g *weighted) error {
			return failure(g.Insert(ctx, []uint32{6}, []uint32{4}, []int32{-2}, nil))
		}),
		lines: each("5\t4\t1", "6\t4\t-2"), json: each(`{"from":5,"to":4,"weight":1}`,
			`{"from":6,"to":4,"weight":-2}`),
	}
}

func openIDs(dev device.Device) (*intern.Table, error) { return intern.New(dev, nil) }

func stringsKind() storeKind {
	add := func(s ...string) func(context.Context, durable.Structure) error {
		return on(func(ctx context.Context, t *intern.Table) error {
			return failure(t.Strings(ctx, s, make([]uint32, len(s))))
		})
	}
	return storeKind{
		name: "ids of strings", holds: "ids of byte strings or rows", rows: 6, ordered: true,
		open: opened(openIDs), first: add("b", "a", "a\tb"), second: add(`say "<a>"`, "", "\xff"),
		lines: each("0\tb", "1\ta", "2\t\"a\tb\"", "3\t\"say \"\"<a>\"\"\"", "4\t\"\"", "5\t\xff"),
		json: each(`{"id":0,"key":"b"}`, `{"id":1,"key":"a"}`, `{"id":2,"key":"a\tb"}`,
			`{"id":3,"key":"say \"<a>\""}`, `{"id":4,"key":""}`,
			`{"id":5,"key":{"base64":"/w=="}}`),
	}
}

func rowsKind() storeKind {
	add := func(s []string, n []int8, f []float64, valid []bool) func(context.Context,
		durable.Structure) error {
		cols := []column.Column{column.OfStrings(s), column.Of(n).WithValid(column.OfBools(valid)),
			column.Of(f), column.Of(valid)}
		return on(func(ctx context.Context, t *intern.Table) error {
			return failure(t.Rows(ctx, cols, make([]uint32, len(s))))
		})
	}
	return storeKind{
		name: "ids of rows", holds: "ids of byte strings or rows", rows: 3, ordered: true,
		open: opened(openIDs),
		first: add([]string{"a", "b"}, []int8{1, -2}, []float64{.5, math.NaN()},
			[]bool{true, true}),
		second: add([]string{"a"}, []int8{1}, []float64{.5}, []bool{false}),
		lines:  each("0\ta\t1\t0.5\ttrue", "1\tb\t-2\tNaN\ttrue", "2\ta\t\t0.5\tfalse"),
		json: each(`{"id":0,"key":["a",1,0.5,true]}`, `{"id":1,"key":["b",-2,"NaN",true]}`,
			`{"id":2,"key":["a",null,0.5,false]}`),
	}
}

// weftStore runs weft store in this process.
func weftStore(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, errOut bytes.Buffer
	status = run(ctx, append([]string{"store"}, args...), &app{stdout: &out, stderr: &errOut})
	return out.String(), errOut.String(), status
}

// newStore creates a store of a kind. If checkpoint is true, a checkpoint has the first changes.
func (k *storeKind) newStore(t *testing.T, checkpoint bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	k.open(t, dir, func(m durable.Structure) error {
		err := k.first(t.Context(), m)
		if checkpoint {
			err = errors.Join(err, durable.Checkpoint(t.Context(), m))
		}
		return errors.Join(err, k.second(t.Context(), m))
	})
	return dir
}

// sameDump compares the output of dump.
func (k *storeKind) sameDump(t *testing.T, what, dir string) {
	t.Helper()
	for format, want := range map[string][]string{"--json=false": k.lines, "--json": k.json} {
		stdout, stderr, status := weftStore(t.Context(), "dump", format, dir)
		got := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if !k.ordered {
			slices.Sort(got)
			want = slices.Sorted(slices.Values(want))
		}
		if status != exitOK || !slices.Equal(got, want) || !strings.Contains(stderr, " rows\n") {
			t.Errorf("%s, %s: dump %s: exit status %d, says %q, prints\n%q, want\n%q", k.name, what,
				format, status, stderr, got, want)
		}
		for _, line := range got {
			if format == "--json" && !json.Valid([]byte(line)) {
				t.Errorf("%s, %s: not JSON: %s", k.name, what, line)
			}
		}
	}
}

// All verbs serve all kinds of stores.
func TestStoreKinds(t *testing.T) {
	for _, k := range storeKinds() {
		t.Run(k.name, func(t *testing.T) {
			k.sameDump(t, "log", k.newStore(t, false))
			dir := k.newStore(t, true)
			k.sameDump(t, "checkpoint", dir)
			backup, restored := filepath.Join(t.TempDir(), "a",
				"backup"), filepath.Join(t.TempDir(), "restored")
			k.verbs(t, dir, backup, restored)
			k.sameDump(t, "compacted", dir)
			k.sameDump(t, "restored", restored)
			k.open(t, dir, func(m durable.Structure) error { return nil }) // with its own structure
		})
	}
}

// storeChecked is the output of weft store check, without pointers.
type storeChecked struct {
	Folder, Verdict string
	storeContent
	Error string
}

func decodeCheck(t *testing.T, text string) (c storeChecked) {
	t.Helper()
	decode(t, text, &c)
	return c
}

// verbs checks, compacts, backs up and restores a store.
func (k *storeKind) verbs(t *testing.T, dir, backup, restored string) {
	t.Helper()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"info", dir}, k.holds},
		{[]string{"check", dir}, k.holds + "\n"},
		{[]string{"check", "--repair", dir}, k.holds + "\n"},
		{[]string{"backup", dir, backup}, k.holds},
		{[]string{"restore", backup, restored}, k.holds},
		{[]string{"compact", dir}, " rows\n"},
		{[]string{"check", dir}, "0 changes replayed"},
	} {
		stdout, stderr, status := weftStore(t.Context(), tt.args...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, tt.want) {
			t.Errorf("%s: %q: exit status %d, prints %q and says %q", k.name, tt.args, status,
				stdout, stderr)
		}
	}
	stdout, _, _ := weftStore(t.Context(), "check", "--json", dir)
	got := decodeCheck(t, stdout)
	if got.Verdict != "ok" || got.Rows != k.rows || got.CheckpointRows != k.rows ||
		!strings.Contains(got.Holds, k.holds) {
		t.Errorf("%s: check prints %s", k.name, stdout)
	}
}
