package refs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// table is a map or a set with user kernels. The values of a set are not read.
type table[K, V uint32 | uint64] struct {
	kernel device.Kernel
	stream *device.Stream
	set    bool
	update func(ctx context.Context, n int, submit func(launch func(ops) error) error) error
	view   func(ctx context.Context, submit func(launch func(ops) error) error) error
	// reducing is update with a Ref for launches that neither put nor erase.
	reducing func(ctx context.Context, n int, submit func(launch func(ops) error) error) error
	get      func(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	put      func(ctx context.Context, keys []K, vals []V) error
	del      func(ctx context.Context, keys []K) error
	shared
}

// shared has the methods of all tables.
type shared interface {
	Len() int
	Sync(ctx context.Context) error
	Clear(ctx context.Context) error
	Compact(ctx context.Context) error
	Check(ctx context.Context) error
	Close() error
}

func launch[P any](s *device.Stream, k device.Kernel, of func(ops) P) func(ops) error {
	return func(o ops) error {
		p := of(o)
		return device.Launch(s, k, device.Dim{X: (int(o.n) + 63) / 64}, device.Dim{X: 64}, &p)
	}
}

// of fills in the functions of x that run user kernels, given the View and Update of a table.
// params makes kernel parameters from a Ref.
func of[R, P any, K, V uint32 | uint64](x *table[K, V], m interface {
	View(context.Context, *device.Stream, func(R) error) error
	Update(context.Context, *device.Stream, int, func(R) error) error
	shared
}, reducing func(R) R, params func(R, ops) P) *table[K, V] {
	with := func(submit func(launch func(ops) error) error, change func(R) R) func(R) error {
		return func(r R) error {
			if change != nil {
				r = change(r)
			}
			return submit(launch(x.stream, x.kernel, func(o ops) P { return params(r, o) }))
		}
	}
	x.shared = m
	x.update = func(ctx context.Context, n int, submit func(launch func(ops) error) error) error {
		return m.Update(ctx, x.stream, n, with(submit, nil))
	}
	x.view = func(ctx context.Context, submit func(launch func(ops) error) error) error {
		return m.View(ctx, x.stream, with(submit, nil))
	}
	x.reducing = func(ctx context.Context, n int, submit func(launch func(ops) error) error) error {
		return m.Update(ctx, x.stream, n, with(submit, reducing))
	}
	return x
}

func linearOps(r linear.Ref, o ops) linearParams { return linearParams{ref: r, ops: o} }
func slabOps(r slab.Ref, o ops) slabParams       { return slabParams{ref: r, ops: o} }

// maker makes a table with the given capacity.
type maker[K, V uint32 | uint64] func(t *testing.T, dev device.Device, capacity int, fixed bool) *table[K, V]

func openLinear[K, V uint32 | uint64](t *testing.T, dev device.Device, capacity int, fixed bool) *table[K, V] {
	m := must[*linear.Map[K, V]](t)(linear.New[K, V](dev, &linear.Options{Capacity: capacity, Fixed: fixed, Seed: 1}))
	s := must[*device.Stream](t)(dev.NewStream())
	k := kernel(t, dev, refsImages, batch.MapWidths[K, V](), "linear")
	return of(&table[K, V]{
		kernel: k, stream: s, get: m.Get,
		put: func(ctx context.Context, keys []K, vals []V) error { _, err := m.Put(ctx, keys, vals); return err },
		del: func(ctx context.Context, keys []K) error { _, err := m.Delete(ctx, keys, nil); return err },
	}, m, linear.Ref.Reducing, linearOps)
}

func openSlab[K, V uint32 | uint64](t *testing.T, dev device.Device, capacity int, fixed bool) *table[K, V] {
	m := must[*slab.Map[K, V]](t)(slab.New[K, V](dev, &slab.Options{Capacity: capacity, Fixed: fixed, Seed: 1}))
	s := must[*device.Stream](t)(dev.NewStream())
	k := kernel(t, dev, refsImages, batch.MapWidths[K, V](), "slab")
	return of(&table[K, V]{
		kernel: k, stream: s, get: m.Get,
		put: func(ctx context.Context, keys []K, vals []V) error { _, err := m.Put(ctx, keys, vals); return err },
		del: func(ctx context.Context, keys []K) error { _, err := m.Delete(ctx, keys, nil); return err },
	}, m, slab.Ref.Reducing, slabOps)
}

func openLinearSet[K, V uint32 | uint64](t *testing.T, dev device.Device, capacity int, fixed bool) *table[K, V] {
	m := must[*linear.Set[K]](t)(linear.NewSet[K](dev, &linear.Options{Capacity: capacity, Fixed: fixed, Seed: 1}))
	s := must[*device.Stream](t)(dev.NewStream())
	k := kernel(t, dev, refsImages, batch.SetWidths[K](), "linear")
	return of(&table[K, V]{
		kernel: k, stream: s, set: true,
		get: func(ctx context.Context, keys []K, _ []V, found []bool) (int, error) {
			return m.Contains(ctx, keys, found)
		},
		put: func(ctx context.Context, keys []K, _ []V) error { _, err := m.Add(ctx, keys, nil); return err },
		del: func(ctx context.Context, keys []K) error { _, err := m.Delete(ctx, keys, nil); return err },
	}, m, linear.Ref.Reducing, linearOps)
}

func openSlabSet[K, V uint32 | uint64](t *testing.T, dev device.Device, capacity int, fixed bool) *table[K, V] {
	m := must[*slab.Set[K]](t)(slab.NewSet[K](dev, &slab.Options{Capacity: capacity, Fixed: fixed, Seed: 1}))
	s := must[*device.Stream](t)(dev.NewStream())
	k := kernel(t, dev, refsImages, batch.SetWidths[K](), "slab")
	return of(&table[K, V]{
		kernel: k, stream: s, set: true,
		get: func(ctx context.Context, keys []K, _ []V, found []bool) (int, error) {
			return m.Contains(ctx, keys, found)
		},
		put: func(ctx context.Context, keys []K, _ []V) error { _, err := m.Add(ctx, keys, nil); return err },
		del: func(ctx context.Context, keys []K) error { _, err := m.Delete(ctx, keys, nil); return err },
	}, m, slab.Ref.Reducing, slabOps)
}

func (x *table[K, V]) close(t testing.TB) {
	t.Helper()
	check(t, x.Check(t.Context()))
	check(t, errors.Join(x.Close(), x.stream.Close()))
}

// run runs operations in an Update with a limit of insertions.
func (x *table[K, V]) run(t testing.TB, permitted int, mode uint32, kinds []op.Kind, keys []K, vals []V) (outcomes []uint32, held []V) {
	t.Helper()
	c := upload(t, x.stream, kinds, keys, vals)
	check(t, x.update(t.Context(), permitted, func(launch func(ops) error) error { return launch(c.ops(mode)) }))
	outcomes, held, _ = c.download(t, x.stream)
	return outcomes, held
}

// model applies operations on different keys to a Go map and compares the results.
func model[K, V uint32 | uint64](m map[K]V, set bool, kinds []op.Kind, keys []K, vals []V, outcomes []uint32, held []V) error {
	for i, k := range keys {
		v, there := m[k]
		want, is := uint32(nothing), vals[i]
		switch kinds[i] {
		case op.Get:
			if there {
				want, is = present, v
			}
		case op.PutNew:
			if want, is = inserted, vals[i]; there {
				want, is = present, v
			} else {
				m[k] = vals[i]
			}
		case op.Delete:
			if there {
				want = deleted
			}
			delete(m, k)
		case op.Put:
			if want = inserted; there {
				want = replaced
			}
			m[k] = vals[i]
		case op.Sum:
			if want = inserted; there {
				want = replaced
			}
			m[k] = v + vals[i]
		}
		got := outcomes[i]
		if got == revived {
			got = inserted
		}
		if got != want || !set && held[i] != is {
			return fmt.Errorf("operation %d of kind %v on %#x: %d with %#x, want %d with %#x", i, kinds[i], k, got, held[i], want, is)
		}
	}
	return nil
}

// same compares a table with a Go map, by batches from host memory.
func (x *table[K, V]) same(t testing.TB, m map[K]V, of int) {
	t.Helper()
	keys := make([]K, of)
	for i := range keys {
		keys[i] = K(i) - 4
	}
	vals, found := make([]V, of), make([]bool, of)
	must[int](t)(x.get(t.Context(), keys, vals, found))
	for i, k := range keys {
		if v, there := m[k]; there != found[i] || !x.set && v != vals[i] {
			t.Fatalf("key %#x: %#x, %v, want %#x, %v", k, vals[i], found[i], v, there)
		}
	}
	check(t, x.Sync(t.Context()))
	if x.Len() != len(m) {
		t.Fatalf("%d keys, want %d", x.Len(), len(m))
	}
	check(t, x.Check(t.Context()))
}

// kindsOf returns random kinds that a map or a set supports.
func kindsOf(rng *rand.Rand, n int, set bool) []op.Kind {
	all := []op.Kind{op.PutNew, op.PutNew, op.Get, op.Delete, op.Put, op.Sum}
	if set {
		all = all[:4]
	}
	kinds := make([]op.Kind, n)
	for i := range kinds {
		kinds[i] = all[rng.IntN(len(all))]
	}
	return kinds
}

// Concurrent operations on different keys have the same results as on a Go map, even between host
// batches and during growth.
func againstModel[K, V uint32 | uint64](open maker[K, V]) func(t *testing.T, dev device.Device) {
	return func(t *testing.T, dev device.Device) {
		const of = 220
		x := open(t, dev, 20, false)
		defer x.close(t)
		rng, m := rand.New(rand.NewPCG(1, 2)), map[K]V{}
		for round := range 4 {
			n := 50 + 45*round
			keys, kinds := keysOf[K](rng, n, of), kindsOf(rng, n, x.set)
			vals := make([]V, n)
			for i := range vals {
				vals[i] = V(rng.Uint64())
			}
			outcomes, held := x.run(t, n, uint32(round%2), kinds, keys, vals)
			if err := model(m, x.set, kinds, keys, vals, outcomes, held); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			x.same(t, m, of)
			keys = keysOf[K](rng, 30, of)
			check(t, x.del(t.Context(), keys))
			for _, k := range keys {
				delete(m, k)
			}
		}
		check(t, x.Compact(t.Context()))
		x.same(t, m, of)
	}
}

func each(
	t *testing.T, seeds uint64,
	a func(maker[uint32, uint32]) func(*testing.T, device.Device), b func(maker[uint64, uint32]) func(*testing.T, device.Device),
) {
	run := func(name string, test func(*testing.T, device.Device)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onGPUs(t, seeds, test)
		})
	}
	run("linear 32,32", a(openLinear))
	run("linear 64,32", b(openLinear))
	run("linear set 32", a(openLinearSet))
	run("linear set 64", b(openLinearSet))
	run("slab 32,32", a(openSlab))
	run("slab 64,32", b(openSlab))
	run("slab set 32", a(openSlabSet))
	run("slab set 64", b(openSlabSet))
}

func TestBesideModel(t *testing.T) {
	each(t, 3, againstModel[uint32, uint32], againstModel[uint64, uint32])
}

// If threads insert the same key, exactly one succeeds, and sums include the values of all. The
// limit of insertions is exact.
func contended[K, V uint32 | uint64](open maker[K, V]) func(t *testing.T, dev device.Device) {
	return func(t *testing.T, dev device.Device) {
		const n, of = 140, 12
		x := open(t, dev, 4, false)
		defer x.close(t)
		for way, how := range modes {
			rng, m := rand.New(rand.NewPCG(3, uint64(how))), map[K]V{}
			check(t, x.Clear(t.Context()))
			kinds, keys, vals := make([]op.Kind, n), make([]K, n), make([]V, n)
			for i := range keys {
				keys[i], vals[i], kinds[i] = K(rng.IntN(of))-4, V(rng.IntN(100)), op.Sum
				if x.set {
					kinds[i] = op.PutNew
				}
				m[keys[i]] += vals[i]
			}
			outcomes, _ := x.run(t, len(m), how, kinds, keys, vals)
			fresh := map[K]int{}
			for i, o := range outcomes {
				if o == inserted {
					fresh[keys[i]]++
				} else if o != replaced && o != present {
					t.Fatalf("%s: operation %d: %d", way, i, o)
				}
			}
			for k := range m {
				if fresh[k] != 1 {
					t.Errorf("%s: key %#x has been inserted %d times", way, k, fresh[k])
				}
			}
			x.same(t, m, of)
		}
	}
}

func TestContended(t *testing.T) {
	each(t, 4, contended[uint32, uint32], contended[uint64, uint32])
}

// Insertions beyond the limit do nothing, and Sync reports them once.
func overLimit[K, V uint32 | uint64](open maker[K, V]) func(t *testing.T, dev device.Device) {
	return func(t *testing.T, dev device.Device) {
		const n, permitted = 100, 33
		for _, how := range modes {
			x := open(t, dev, 4, false)
			m := map[K]V{}
			kinds, keys, vals := make([]op.Kind, n), keysOf[K](rand.New(rand.NewPCG(5, 6)), n, n), make([]V, n)
			for i := range kinds {
				kinds[i] = op.PutNew
			}
			outcomes, _ := x.run(t, permitted, how, kinds, keys, vals)
			for i, o := range outcomes {
				switch o {
				case inserted:
					m[keys[i]] = 0
				case full:
				default:
					t.Errorf("operation %d: %d", i, o)
				}
			}
			if err := x.Sync(t.Context()); !errors.Is(err, weft.ErrFull) {
				t.Errorf("Sync: %v", err)
			}
			if len(m) != permitted {
				t.Errorf("%d keys, want %d", len(m), permitted)
			}
			x.same(t, m, n)
			x.close(t)
		}
	}
}

func TestBeyondWhatIsPermitted(t *testing.T) {
	each(t, 3, overLimit[uint32, uint32], overLimit[uint64, uint32])
}

// A Ref of View finds what Get finds, refuses changes, and keeps its memory while the table grows.
func viewed[K, V uint32 | uint64](open maker[K, V]) func(t *testing.T, dev device.Device) {
	return func(t *testing.T, dev device.Device) {
		const n, of = 60, 120
		x := open(t, dev, 20, false)
		defer x.close(t)
		rng, m := rand.New(rand.NewPCG(7, 8)), map[K]V{}
		keys, vals := keysOf[K](rng, n, of), make([]V, n)
		for i, k := range keys {
			vals[i] = V(i) + 1
			m[k] = vals[i]
		}
		check(t, x.put(t.Context(), keys, vals))
		for _, how := range modes {
			looks := keysOf[K](rng, of, of)
			c := upload(t, x.stream, make([]op.Kind, of), looks, make([]V, of)) // Gets
			check(t, x.view(t.Context(), func(launch func(ops) error) error { return launch(c.ops(how)) }))
			more := make([]K, 500)
			for i := range more {
				more[i] = K(1000 + i)
			}
			check(t, x.put(t.Context(), more, make([]V, len(more)))) // during the View
			outcomes, held, _ := c.download(t, x.stream)
			if err := model(m, x.set, make([]op.Kind, of), looks, make([]V, of), outcomes, held); err != nil {
				t.Fatal(err)
			}
			check(t, x.del(t.Context(), more))
			check(t, x.Compact(t.Context()))
			check(t, x.Sync(t.Context()))

			c = upload(t, x.stream, kindsOf(rng, n, true)[:1], []K{5000}, []V{1})
			check(t, x.stream.Fill(c.kinds.Ptr(), uint32(op.PutNew), 1))
			check(t, x.view(t.Context(), func(launch func(ops) error) error { return launch(c.ops(how)) }))
			if outcomes, _, _ := c.download(t, x.stream); outcomes[0] != full {
				t.Errorf("a change by a View: %d", outcomes[0])
			}
			if err := x.Sync(t.Context()); !errors.Is(err, weft.ErrFull) {
				t.Errorf("Sync: %v", err)
			}
			x.same(t, m, of)
		}
	}
}

func TestView(t *testing.T) {
	each(t, 3, viewed[uint32, uint32], viewed[uint64, uint32])
}

// A fixed table accepts keys up to its capacity.
func fixed[K, V uint32 | uint64](open maker[K, V]) func(t *testing.T, dev device.Device) {
	return func(t *testing.T, dev device.Device) {
		const n = 900
		x := open(t, dev, 64, true)
		defer x.close(t)
		kinds, keys, m := make([]op.Kind, n), keysOf[K](rand.New(rand.NewPCG(9, 9)), n, n), map[K]V{}
		for i := range kinds {
			kinds[i] = op.PutNew
		}
		outcomes, _ := x.run(t, n, warps, kinds, keys, make([]V, n))
		for i, o := range outcomes {
			if o == inserted {
				m[keys[i]] = 0
			}
		}
		// Some tables have capacity for many more keys than requested.
		if err := x.Sync(t.Context()); errors.Is(err, weft.ErrFull) != (len(m) < n) || len(m) < 64 {
			t.Errorf("%d keys, %v", len(m), err)
		}
		x.same(t, m, n)
	}
}

func TestFixed(t *testing.T) {
	each(t, 1, fixed[uint32, uint32], fixed[uint64, uint32])
}

// Update returns the error of submit, and counts what submit has submitted.
func TestErrorOfSubmit(t *testing.T) {
	onGPUs(t, 1, func(t *testing.T, dev device.Device) {
		x := openLinear[uint32, uint32](t, dev, 100, false)
		defer x.close(t)
		oops := errors.New("oops")
		c := upload(t, x.stream, []op.Kind{op.PutNew}, []uint32{7}, []uint32{8})
		err := x.update(t.Context(), 1, func(launch func(ops) error) error { return errors.Join(launch(c.ops(singleLane)), oops) })
		if !errors.Is(err, oops) || err.Error() != "linear: Update: oops" {
			t.Errorf("%v", err)
		}
		c.download(t, x.stream)
		x.same(t, map[uint32]uint32{7: 8}, 20)
		err = x.view(t.Context(), func(func(ops) error) error { return oops })
		if !errors.Is(err, oops) || err.Error() != "linear: View: oops" {
			t.Errorf("%v", err)
		}
		if err := x.update(t.Context(), -1, nil); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

// A CPU has no kernels.
func TestOnCPU(t *testing.T) {
	dev := must[device.Device](t)(cpu.Open(nil))
	defer dev.Close()
	s := must[*device.Stream](t)(dev.NewStream())
	defer s.Close()
	m := must[*linear.Map[int64, int64]](t)(linear.New[int64, int64](dev, nil))
	defer m.Close()
	n := must[*slab.MultiMap[int64, int64]](t)(slab.NewMultiMap[int64, int64](dev, nil))
	defer n.Close()
	for _, err := range []error{
		m.View(t.Context(), s, nil), m.Update(t.Context(), s, 1, nil), n.View(t.Context(), s, nil), n.Update(t.Context(), s, 1, nil),
	} {
		if !errors.Is(err, device.ErrNoKernels) {
			t.Errorf("%v", err)
		}
	}
}
