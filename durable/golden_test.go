package durable_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
)

var writeGolden = flag.Bool("write-golden", false, "write the stores of testdata/format1 that do not exist")

// Stores that the first version of the format wrote can be opened, and have their content. The
// stores in testdata/format1 stay as they are for ever; a new format gets a folder of its own.
func TestGoldenStores(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for name, g := range goldens(dev) {
		t.Run(name, func(t *testing.T) {
			golden, dir := filepath.Join("testdata", "format1", name), filepath.Join(t.TempDir(), name)
			if _, err := os.Stat(golden); errors.Is(err, os.ErrNotExist) && *writeGolden {
				if err := g.write(golden); err != nil {
					t.Fatal(err)
				}
			}
			if err := durable.Restore(ctx, golden, dir); err != nil {
				t.Fatal(err)
			}
			for _, when := range []string{"opened", "opened again"} {
				got, err := g.read(dir)
				if err != nil {
					t.Fatal(err)
				}
				if got != g.content {
					t.Errorf("%s: the content is %s, want %s", when, got, g.content)
				}
			}
		})
	}
}

// golden is a store in testdata and its content.
type golden struct {
	write   func(dir string) error
	read    func(dir string) (string, error)
	content string
}

// goldenOf returns the golden store with what two changes leave. A checkpoint comes between them.
func goldenOf[M durable.Structure](empty func() (M, error), first, second func(M) error, read func(M) (any, error), content string) golden {
	return golden{
		write: func(dir string) error {
			m, err := durable.Open(ctx, dir, empty, durable.Options{})
			if err != nil {
				return err
			}
			err = first(m)
			if err == nil {
				err = durable.Checkpoint(ctx, m)
			}
			if err == nil {
				err = second(m)
			}
			return errors.Join(err, m.Close(), os.Remove(filepath.Join(dir, "LOCK")))
		},
		read: func(dir string) (string, error) {
			m, err := durable.Open(ctx, dir, empty, durable.Options{})
			if err != nil {
				return "", err
			}
			got, err := read(m)
			return fmt.Sprint(got), errors.Join(err, m.Close())
		},
		content: content,
	}
}

// each returns a function that does several things until one fails.
func each[M any](things ...func(M) error) func(M) error {
	return func(m M) error {
		for _, do := range things {
			if err := do(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func goldens(dev device.Device) map[string]golden {
	type (
		ids     = *linear.Map[uint64, uint32]
		numbers = *linear.Set[int32]
		multi   = *slab.MultiMap[uint32, float64]
		times   = *ordered.Map[int64, int64]
	)
	return map[string]golden{
		"map": goldenOf(func() (ids, error) { return linear.New[uint64, uint32](dev, nil) },
			each(
				func(m ids) error { _, err := m.Assign(ctx, []uint64{70, 80, 90}, make([]uint32, 3)); return err }),
			each(
				func(m ids) error { _, err := m.Delete(ctx, []uint64{90}, nil); return err },
				func(m ids) error { _, err := m.Assign(ctx, []uint64{100}, make([]uint32, 1)); return err }),
			func(m ids) (any, error) { return maps.Collect(m.All()), nil },
			"map[70:0 80:1 100:3]"),
		"set": goldenOf(func() (numbers, error) { return linear.NewSet[int32](dev, nil) },
			each(
				func(m numbers) error { _, err := m.Add(ctx, []int32{1, 2, 3}, nil); return err }),
			each(
				func(m numbers) error { return m.Clear(ctx) },
				func(m numbers) error { _, err := m.Add(ctx, []int32{-5, 2}, nil); return err }),
			func(m numbers) (any, error) { return slices.Sorted(m.All()), nil },
			"[-5 2]"),
		"multimap": goldenOf(func() (multi, error) { return slab.NewMultiMap[uint32, float64](dev, nil) },
			each(
				func(m multi) error { _, err := m.Put(ctx, []uint32{1, 1, 2, 3}, []float64{.5, .25, 2, 3}); return err }),
			each(
				func(m multi) error { _, err := m.DeleteAll(ctx, []uint32{2}, nil); return err },
				func(m multi) error { _, err := m.Delete(ctx, []uint32{1}, nil); return err },
				func(m multi) error { _, err := m.Put(ctx, []uint32{1}, []float64{.75}); return err }),
			func(m multi) (any, error) {
				var rows weft.Rows[float64]
				err := m.GetAll(ctx, []uint32{1, 2, 3}, &rows)
				return fmt.Sprint(rows.Offsets, rows.Vals), err
			},
			"[0 2 2 3] [0.25 0.75 3]"),
		"ordered-map": goldenOf(func() (times, error) { return ordered.New[int64, int64](dev, nil) },
			each(
				func(m times) error { _, err := m.Put(ctx, []int64{-20, -10, 0, 10}, []int64{1, 2, 3, 4}); return err }),
			each(
				func(m times) error { _, err := m.DeleteRange(ctx, []int64{-15}, []int64{5}, nil); return err },
				func(m times) error { _, err := m.Put(ctx, []int64{10, 20}, []int64{5, 6}); return err }),
			func(m times) (any, error) { return maps.Collect(m.All()), nil },
			"map[-20:1 10:5 20:6]"),
		"graph": goldenOf(func() (*graph.Graph, error) { return graph.New(dev, &graph.Options{MaxVertices: 100, Directed: true}) },
			each(
				func(g *graph.Graph) error {
					_, err := g.Insert(ctx, []uint32{1, 2, 3}, []uint32{2, 3, 1}, nil)
					return err
				}),
			each(
				func(g *graph.Graph) error { _, err := g.Delete(ctx, []uint32{1}, []uint32{2}, nil); return err },
				func(g *graph.Graph) error { _, err := g.InsertVertices(ctx, []uint32{7}); return err },
				func(g *graph.Graph) error { _, err := g.DeleteVertices(ctx, []uint32{3}); return err },
				func(g *graph.Graph) error { _, err := g.Insert(ctx, []uint32{2}, []uint32{1}, nil); return err }),
			func(g *graph.Graph) (any, error) {
				offsets, neighbors, err := g.Rows(ctx, []uint32{0, 1, 2, 3, 7})
				return fmt.Sprint(g.Vertices(), offsets, neighbors), err
			},
			"3 [0 0 0 1 1 1] [1]"),
		"table-graph": goldenOf(func() (*slab.WeightedGraph[float32], error) { return slab.NewWeightedGraph[float32](dev, nil) },
			each(
				func(g *slab.WeightedGraph[float32]) error {
					_, err := g.Insert(ctx, []uint32{1, 2}, []uint32{2, 3}, []float32{.5, 2}, nil)
					return err
				}),
			each(
				func(g *slab.WeightedGraph[float32]) error {
					_, err := g.Insert(ctx, []uint32{2, 4}, []uint32{3, 5}, []float32{3, 4}, nil)
					return err
				},
				func(g *slab.WeightedGraph[float32]) error {
					_, err := g.Delete(ctx, []uint32{1}, []uint32{2}, nil)
					return err
				}),
			func(g *slab.WeightedGraph[float32]) (any, error) {
				offsets, neighbors, weights, err := g.Rows(ctx, []uint32{1, 2, 3, 4, 5})
				return fmt.Sprint(offsets, neighbors, weights), err
			},
			"[0 0 1 2 3 4] [3 2 5 4] [3 3 4 4]"),
		"ids": goldenOf(func() (*intern.Table, error) { return intern.New(dev, nil) },
			each(
				func(t *intern.Table) error {
					_, err := t.Strings(ctx, []string{"b", "a"}, make([]uint32, 2))
					return err
				}),
			each(
				func(t *intern.Table) error {
					_, err := t.Strings(ctx, []string{"a", "a rather long key", ""}, make([]uint32, 3))
					return err
				}),
			func(t *intern.Table) (any, error) {
				return fmt.Sprintf("%q", [][]byte{t.At(0), t.At(1), t.At(2), t.At(3)}), nil
			},
			`["b" "a" "a rather long key" ""]`),
	}
}
