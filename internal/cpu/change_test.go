package cpu

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// recorder is an engine that only records the operations that it runs. The key of an operation is
// its index; the operation begins at places[key]. The last place always overflows, and operations
// at place 1 also need other places.
type recorder struct {
	Engine
	places []uint32
	quick  bool

	mu     sync.Mutex
	ran    [recorded][]uint32 // keys by place, in order of execution
	serial []int              // sizes of the pieces that one core ran alone
}

const recorded = 100_000 // number of places

func (r *recorder) Look(context.Context, *device.Stream, *core.Lease, *batch.Batch, device.Ptr) (done, hits int, err error) {
	return 0, 0, errors.New("not in this test")
}

func newRecorder(t *testing.T, workers int, places []uint32) *recorder {
	dev, err := cpu.Open(&cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := core.NewLines(dev, recorded-1)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Engine: Engine{Device: dev}, places: places, quick: true}
	if _, err := r.Start(&lines); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(lines.Free(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *recorder) change(ctx context.Context, flags batch.Flags) (done int, failed []uint32, err error) {
	keys := core.AllRows(len(r.places))
	b := &batch.Batch{N: len(keys), Kind: op.Put, Flags: flags, Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
	return r.Change(ctx, nil, b, PieceOps, func(part *batch.Batch) Loops {
		keys := batch.View[uint32](part.Columns[batch.Keys].Host)
		return &piece{r, keys}
	})
}

type piece struct {
	r    *recorder
	keys []uint32
}

func (p *piece) Locate(lo, hi int, places []uint32) {
	for i, k := range p.keys[lo:hi] {
		places[i] = p.r.places[k]
	}
}

func (p *piece) Quick() bool                         { return p.r.quick }
func (p *piece) Run(w *Watch, s Share) (int, Result) { return p.r.run(w, p.keys, s) }

func (r *recorder) run(w *Watch, keys []uint32, s Share) (ran int, sum Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := s.Hi-s.Lo == recorded
	if whole && len(s.Ops) == len(keys) {
		r.serial = append(r.serial, len(keys))
	}
	for n, i := range s.Ops {
		p := r.places[keys[i]]
		switch {
		case w.ShouldStop(1):
			return n, sum
		case p == 1 && !whole:
			sum.Deferred = append(sum.Deferred, i)
			continue
		case p == recorded-1:
			sum.Failed = append(sum.Failed, i)
		default:
			sum.Live, sum.Used = sum.Live+1, sum.Used+2
		}
		r.ran[p] = append(r.ran[p], keys[i])
	}
	return len(s.Ops), sum
}

// skewedPlaces returns the places of n operations. The given percentage have the same place, and a
// few have each of the special places.
func skewedPlaces(n, percent int) []uint32 {
	places := make([]uint32, n)
	for i := range places {
		switch places[i] = uint32(i*7919) % recorded; {
		case i%1000 == 0:
			places[i] = recorded - 1
		case i%1000 == 1:
			places[i] = 1
		case i*61%100 < percent:
			places[i] = 12345
		}
	}
	return places
}

// However a batch is divided, each operation must run once, operations at one place must run in
// batch order, and their results must add up.
func TestChangeRunsAll(t *testing.T) {
	for _, workers := range []int{1, 3, 16} {
		for _, percent := range []int{0, 5, 30, 90} {
			places := skewedPlaces(3*PieceOps/2+77, percent)
			r := newRecorder(t, workers, places)
			done, failed, err := r.change(t.Context(), 0)
			if done != len(places) || err != nil {
				t.Fatalf("%d of %d operations: %v", done, len(places), err)
			}
			for p, ran := range r.ran {
				for _, k := range ran {
					if places[k] != uint32(p) {
						t.Fatalf("operation %d of place %d was run at %d", k, places[k], p)
					}
				}
				done -= len(ran)
				if !slices.IsSorted(ran) {
					t.Fatalf("%d workers, %d percent: operations at place %d were run out of order", workers, percent, p)
				}
			}
			if done != 0 {
				t.Errorf("%d operations were not run, or twice", done)
			}
			if !slices.Equal(failed, r.ran[recorded-1]) || len(failed) == 0 {
				t.Errorf("%d operations found no room, not %d", len(failed), len(r.ran[recorded-1]))
			}
			lines := r.Parts().(Generation)
			live := uint64(len(places) - len(failed))
			if now := *lines.Tally(); now.Live != live || now.Used != 2*live {
				t.Errorf("the counters say %+v of %d", now, live)
			}
		}
	}
}

// All cores must share a batch with one frequent key, in small pieces if necessary. If a piece
// would still keep one core busy for long, that core must run it alone, so that the piece can stop.
func TestSkewedBatchesAreDealt(t *testing.T) {
	for _, c := range []struct {
		name    string
		percent int
		flags   batch.Flags
		slow    bool
		serial  bool
	}{
		{name: "even", percent: 0},
		{name: "a key with 5 %", percent: 5},
		{name: "a key with 7 %", percent: 7},
		{name: "a key with 40 %", percent: 40},
		{name: "a key with 90 %", percent: 90, serial: true},
		{name: "a key with 90 % that needs no search", percent: 90, flags: batch.Multi},
		{name: "long searches", slow: true, serial: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder(t, 16, skewedPlaces(1<<19, c.percent))
			r.quick = !c.slow
			if _, _, err := r.change(t.Context(), c.flags); err != nil {
				t.Fatal(err)
			}
			if (len(r.serial) > 0) != c.serial {
				t.Errorf("one core ran pieces of %d", r.serial)
			}
		})
	}
}

// A piece that one core runs must stop in the middle when the context ends.
func TestChangeStops(t *testing.T) {
	r := newRecorder(t, 2, skewedPlaces(PieceOps, 95))
	ctx, cancel := context.WithCancel(t.Context())
	checks := 0
	stops := observedContext{ctx, func() {
		if checks++; checks == 10 {
			cancel()
		}
	}}
	done, _, err := r.change(stops, 0)
	if !errors.Is(err, context.Canceled) || done == 0 || done > 10*watchWork {
		t.Errorf("%d operations: %v", done, err)
	}
	for p, ran := range r.ran {
		for _, k := range ran {
			if int(k) >= done {
				t.Fatalf("operation %d at place %d was run, though only %d are said to be", k, p, done)
			}
		}
	}
}

type observedContext struct {
	context.Context
	onErr func()
}

func (c observedContext) Err() error {
	c.onErr()
	return c.Context.Err()
}
