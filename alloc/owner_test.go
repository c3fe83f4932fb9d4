package alloc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// shared is a pool of many owners, with a model of the owner of each unit.
type shared struct {
	t      testing.TB
	pool   *Pool
	stream *device.Stream
	rng    *rand.Rand
	owners []*Owner
	has    map[*Owner][]uint32
	by     map[uint32]*Owner
	zeros  map[*Owner][]uint32 // units to which their owner has written zeros
}

// TestOwners checks that owners never share a unit while other owners are created and closed. Units
// of a closed owner must be free and all ones for the next one, and older Refs must stay valid.
func TestOwners(t *testing.T) {
	dev := devicetest.Open(t)
	for _, opts := range []Options{{Blocks: 3}, {Blocks: 2, MaxSuperBlocks: 3}, {Blocks: 8, Light: true}} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%+v, seed %d", opts, seed), func(t *testing.T) { manyOwners(t, dev, &opts, seed, 60) })
		}
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("sim, seed %d", seed), func(t *testing.T) {
			t.Parallel()
			manyOwners(t, devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Races: true}), &Options{Blocks: 2, MaxSuperBlocks: 4}, seed, 25)
		})
	}
}

func manyOwners(t testing.TB, dev device.Device, opts *Options, seed uint64, steps int) {
	pool, err := New(dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{t: t, pool: pool, rng: rand.New(rand.NewPCG(seed, 1)), has: map[*Owner][]uint32{}, by: map[uint32]*Owner{}, zeros: map[*Owner][]uint32{}}
	if s.stream, err = dev.NewStream(); err != nil {
		t.Fatal(err)
	}
	for range steps {
		s.step()
	}
	for _, o := range s.owners {
		s.check(o)
	}
	if err := errors.Join(s.stream.Close(), pool.Close()); err != nil {
		t.Fatal(err)
	}
}

func (s *shared) step() {
	s.t.Helper()
	if len(s.owners) == 0 || len(s.owners) < 6 && s.rng.IntN(5) == 0 {
		o, err := s.pool.Owner()
		if err != nil {
			s.t.Fatal(err)
		}
		s.owners = append(s.owners, o)
	}
	i := s.rng.IntN(len(s.owners))
	o := s.owners[i]
	switch s.rng.IntN(8) {
	default:
		s.allocate(o, s.rng.IntN(1500))
	case 0: // frees several units, and tries those of another owner
		mine := s.has[o]
		n := s.rng.IntN(len(mine) + 1)
		back, others := slices.Clone(mine[:n]), 0
		for u, of := range s.by {
			if of != o && others < 3 {
				back, others = append(back, u), others+1
			}
		}
		if got, err := o.Free(s.t.Context(), back); got != n || errors.Is(err, device.ErrInvalid) != (others > 0) || others == 0 && err != nil {
			s.t.Fatalf("Free of %d units and %d of others: %d, %v", n, others, got, err)
		}
		s.forget(mine[:n])
		s.has[o] = mine[n:]
	case 1:
		if err := o.Clear(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.forget(s.has[o])
		s.has[o], s.zeros[o] = nil, nil
	case 2:
		if err := o.Reserve(s.t.Context(), s.rng.IntN(3000)); err != nil && !errors.Is(err, op.ErrFull) {
			s.t.Fatal(err)
		}
	case 3: // closes the owner, which frees its units
		if err := o.Close(); err != nil {
			s.t.Fatal(err)
		}
		if _, err := o.Usage(s.t.Context()); !errors.Is(err, op.ErrClosed) || o.Ref(true) != (Ref{}) {
			s.t.Fatalf("after Close: %v, %+v", err, o.Ref(true))
		}
		s.forget(s.has[o])
		delete(s.has, o)
		s.owners = slices.Delete(s.owners, i, i+1)
		return
	}
	s.check(o)
}

// allocate takes units for an owner and writes to several of them.
func (s *shared) allocate(o *Owner, n int) {
	s.t.Helper()
	units := make([]uint32, n)
	got, err := o.Allocate(s.t.Context(), units)
	if err == nil != (got == n) || err != nil && !errors.Is(err, op.ErrFull) {
		s.t.Fatalf("Allocate of %d units: %d, %v", n, got, err)
	}
	for i, u := range units[:got] {
		if s.by[u] != nil {
			s.t.Fatalf("unit %#x has two owners", u)
		}
		s.by[u] = o
		if i%100 == 0 {
			s.write(o, u)
		}
	}
	s.has[o] = append(s.has[o], units[:got]...)
}

// write expects zeros in a unit if its owner has written to it before, and ones otherwise. It
// writes zeros.
func (s *shared) write(o *Owner, unit uint32) {
	s.t.Helper()
	at, err := o.Ptr(unit)
	content, want := make([]uint32, 32), ^uint32(0)
	if slices.Contains(s.zeros[o], unit) {
		want = 0
	}
	err = errors.Join(err, s.stream.CopyOut(s.t.Context(), device.Bytes(content), at))
	if err != nil || slices.Min(content) != want || slices.Max(content) != want {
		s.t.Fatalf("unit %#x holds %x, want %x: %v", unit, content, want, err)
	}
	if err := errors.Join(s.stream.Fill(at, 0, 32), s.stream.Sync(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	s.zeros[o] = append(s.zeros[o], unit)
}

// forget records that units have no owner.
func (s *shared) forget(units []uint32) {
	for _, u := range units {
		delete(s.by, u)
	}
}

// check compares an owner's usage with the model, and its latest Ref with its memory blocks.
func (s *shared) check(o *Owner) {
	s.t.Helper()
	u, err := o.Usage(s.t.Context())
	if err != nil || u.Used != len(s.has[o]) || u.Units < u.Used {
		s.t.Fatalf("%v, has %d: %v", u, len(s.has[o]), err)
	}
	ref, blocks := o.Ref(true), slices.Clone(o.blocks)
	if ref.List != 0 {
		if err := s.stream.CopyOut(s.t.Context(), device.Bytes(blocks), ref.List); err != nil {
			s.t.Fatal(err)
		}
	}
	if int(ref.Count) != len(o.blocks) || !slices.Equal(blocks, o.blocks) {
		s.t.Fatalf("%+v lists %#x, the owner has %#x", ref, blocks, o.blocks)
	}
	for i, first := range o.blocks {
		if ref.List == 0 && ref.address(uint32(i)) != first || first >= ref.Known && ref.List == 0 {
			s.t.Fatalf("%+v: memory block %d is %#x", ref, i, first)
		}
	}
	owned := 0
	for _, o := range s.owners {
		owned += len(o.blocks) * blockUnits
	}
	if p := s.pool.Stats(); p.Owners != len(s.owners) || p.Owned != owned || p.Owned > p.Units {
		s.t.Fatalf("%v; %d owners have %d units", p, len(s.owners), owned)
	}
}

// TestRefsOutliveGrowth runs a kernel with an older Ref that takes and frees units while its owner
// and others grow.
func TestRefsOutliveGrowth(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
			a := newOwner(t, dev, &Options{Blocks: 1, SuperBlocks: 1})
			other, err := a.pool.Owner()
			if err != nil {
				t.Fatal(err)
			}
			old := a.Ref(true)
			c := newChurning(t, a, old, 256, 6)
			taken := map[uint32]bool{}
			for i, o := range []*Owner{other, a, other, a} {
				if err := o.Reserve(t.Context(), (i+1)*700); err != nil {
					t.Fatal(err)
				}
			}
			if now := a.Ref(true); now.Count <= old.Count || now.List == 0 || now.Old != old.Known {
				t.Fatalf("%+v, then %+v", old, now)
			}
			later := newChurning(t, a, a.Ref(true), 256, 6)
			claim(t, other, allocate(t, other, 1000, map[uint32]bool{}), taken)
			for _, c := range []*churning{c, later} {
				if allocated, missing, wrong := c.end(); allocated == 0 || missing+wrong != 0 {
					t.Errorf("%d units allocated, %d times there was none, %d times one was not the thread's own", allocated, missing, wrong)
				}
			}
			if u := usage(t, a); u.Used != 0 {
				t.Errorf("%v", u)
			}
		})
	}
}

// churning is a running launch of churn on a separate stream.
type churning struct {
	t      testing.TB
	stream *device.Stream
	counts device.Slice[uint64]
}

func newChurning(t testing.TB, a *Owner, ref Ref, threads, rounds int) *churning {
	e := a.pool.engine.(*gpuEngine)
	s, err := a.pool.dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	counts, err := device.Upload(s, make([]uint64, 3))
	if err != nil {
		t.Fatal(err)
	}
	p := churnParams{alloc: ref, allocated: counts.Ptr(), missing: counts.Ptr() + 8, wrong: counts.Ptr() + 16, rounds: uint32(rounds), seed: 7}
	if err := device.Launch(s, e.kernel.churn, gpu.Grid(threads), gpu.Block, &p); err != nil {
		t.Fatal(err)
	}
	return &churning{t, s, counts}
}

func (c *churning) end() (allocated, missing, wrong int) {
	var n [3]uint64
	if err := errors.Join(c.counts.CopyTo(c.t.Context(), c.stream, n[:]), c.counts.Free(), c.stream.Close()); err != nil {
		c.t.Fatal(err)
	}
	return int(n[0]), int(n[1]), int(n[2])
}

// TestTooMuchIsRefused checks that sizes beyond the device's memory are refused before anything is
// allocated.
func TestTooMuchIsRefused(t *testing.T) {
	for _, opts := range []Options{
		{Blocks: maxBlocks, SuperBlocks: maxSupers},
		{Blocks: maxBlocks, SuperBlocks: maxSupers, UnitBytes: 256, Light: true},
	} {
		dev := devicetest.OpenCPU(t, 1)
		fired := devicetest.FailAfter(dev, 0)
		n, err := New(dev, &opts)
		bytes := opts.Bytes()
		if n != nil || !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), fmt.Sprint(bytes, " bytes requested")) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		if fired() {
			t.Errorf("something was asked of the device before the refusal: %v", err)
		}
		devicetest.ClearFailures(dev)
	}
	// Growth stops when memory runs out, and the owner keeps its units.
	o := newOwner(t, devicetest.OpenSim(t, &sim.Options{Memory: 1 << 22}), &Options{Blocks: 8})
	if err := o.Reserve(t.Context(), 1<<20); !errors.Is(err, device.ErrMemory) || usage(t, o).Units < 16*blockUnits {
		t.Errorf("%v: %v", usage(t, o), err)
	}
}
