package bucket

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// fake is an engine that has a size and no memory.
type fake struct {
	core.Engine
	size        Size
	rehashes    []Size
	refuse      error // error that every rehash returns
	rehashHelps bool  // operations that run again after a rehash find a slot
	rerunHelps  bool  // operations that run again find a slot even without a rehash
}

func (f *fake) Size() Size { return f.size }

func (f *fake) Rehash(_ context.Context, to Size) error {
	f.rehashes = append(f.rehashes, to)
	if f.refuse == nil {
		f.size = to
	}
	return f.refuse
}

func (f *fake) Change(_ context.Context, _ *device.Stream, b *batch.Batch) (int, []uint32, error) {
	if f.rerunHelps || f.rehashHelps && len(f.rehashes) > 0 {
		return b.N, nil, nil
	}
	return b.N, core.AllRows(b.N), nil
}

// policyOf returns a policy for tables with 16 slots per line, and its engine.
func policyOf(t *testing.T, c Config) (*Policy, *fake) {
	c.MaxLoad, c.SlotBytes, c.LineMultiple, c.MaxLines, c.ReachableLoad, c.FixedLoad = .9, 8, 2, 1<<20, .96, .96
	c.Name, c.Seed, c.Logger = "fake", 7, slog.New(slog.DiscardHandler)
	first, err := c.First()
	if err != nil {
		t.Fatal(err)
	}
	e := &fake{size: first}
	return NewPolicy(c, e), e
}

// The first size is the smallest that holds Capacity.
func TestFirstSize(t *testing.T) {
	for _, capacity := range []int{0, 1, 28, 29, 288, 289, 1000, 1<<20 + 1} {
		p, e := policyOf(t, Config{Capacity: capacity})
		lines := int(e.size.Lines)
		if e.size.Seed != 7 || lines%2 != 0 || p.remaining(0) < capacity || lines > 2 && core.MaxUsed((lines-2)*16, .9) >= capacity {
			t.Errorf("%d keys get %+v, which has room for %d", capacity, e.size, p.remaining(0))
		}
	}
	c := Config{Capacity: 1 << 30, MaxLoad: .9, SlotBytes: 8, LineMultiple: 2, MaxLines: 1 << 20}
	if _, err := c.First(); !errors.Is(err, op.ErrOptions) {
		t.Errorf("a capacity beyond the largest table: %v", err)
	}
}

// If too many keys share buckets, a limited number of other seeds is tried, and larger tables
// unless the table is fixed. If the load is high, the table is doubled at once.
func TestRetry(t *testing.T) {
	failed := &batch.Batch{N: 3}
	for _, test := range []struct {
		name          string
		config        Config
		live          uint64
		refuse        error
		rehashHelps   bool
		rerunHelps    bool
		rehashes      int
		first, last   uint32 // lines of the first and of the last rehash
		retry, failed bool
	}{
		{name: "threads in each other's way", config: Config{Capacity: 280}, live: 40, rerunHelps: true},
		{name: "few keys", config: Config{Capacity: 280}, live: 40, rehashHelps: true, rehashes: 1, first: 20, last: 20, retry: true},
		{name: "many keys", config: Config{Capacity: 280}, live: 280, rehashHelps: true, rehashes: 1, first: 40, last: 40, retry: true},
		{name: "no seed helps", config: Config{Capacity: 280}, live: 40, refuse: op.ErrFull, rehashes: reseeds, first: 20, last: 160},
		{name: "fixed, no seed helps", config: Config{Capacity: 280, Fixed: true}, live: 40, refuse: op.ErrFull, rehashes: reseeds, first: 20, last: 20},
		{name: "fixed, threads in each other's way", config: Config{Capacity: 280, Fixed: true}, live: 270, rerunHelps: true},
		{name: "fixed and full", config: Config{Capacity: 280, Fixed: true}, live: 280},
		{name: "no memory", config: Config{Capacity: 280}, live: 40, refuse: device.ErrMemory, rehashes: 1, first: 20, last: 20, failed: true},
		{name: "fixed, no memory", config: Config{Capacity: 280, Fixed: true}, live: 40, refuse: device.ErrMemory, rehashes: 1, first: 20, last: 20},
	} {
		p, e := policyOf(t, test.config)
		e.refuse, e.rehashHelps, e.rerunHelps = test.refuse, test.rehashHelps, test.rerunHelps
		remaining, retry, err := p.Retry(t.Context(), core.Counters{Live: test.live}, failed)
		want := failed.N
		if test.rehashHelps || test.rerunHelps {
			want = 0
		}
		if len(remaining) != want || retry != test.retry || (err != nil) != test.failed || len(e.rehashes) != test.rehashes {
			t.Errorf("%s: still %v, more %v, %v, after %v", test.name, remaining, retry, err, e.rehashes)
			continue
		}
		seeds := map[uint64]bool{7: true}
		for _, to := range e.rehashes {
			seeds[to.Seed] = true
		}
		if n := len(e.rehashes); n > 0 && (e.rehashes[0].Lines != test.first || e.rehashes[n-1].Lines != test.last || len(seeds) != n+1) {
			t.Errorf("%s: asked for %v", test.name, e.rehashes)
		}
	}
}

// Retry ends after a number of failed seeds. They are counted from the last run that helped.
func TestRetryEnds(t *testing.T) {
	p, e := policyOf(t, Config{Capacity: 280})
	one := &batch.Batch{N: 1}
	_, first, err := p.Retry(t.Context(), core.Counters{Live: 40}, one)
	e.rerunHelps = true
	_, second, err2 := p.Retry(t.Context(), core.Counters{Live: 40}, one)
	if err = errors.Join(err, err2); err != nil || !first || second {
		t.Fatalf("more %v, then %v: %v", first, second, err)
	}
	e.rerunHelps, e.rehashes = false, nil
	for try := 1; ; try++ {
		_, retry, err := p.Retry(t.Context(), core.Counters{Live: 40}, &batch.Batch{N: 1})
		if err != nil || retry != (try < reseeds) {
			t.Fatalf("try %d: more %v, %v", try, retry, err)
		}
		if !retry {
			break
		}
	}
	if len(e.rehashes) != reseeds {
		t.Errorf("asked for %v", e.rehashes)
	}
}

// A table that is almost empty shrinks, but never below its first size. If shrinking fails, it is
// not tried again at once.
func TestShrinking(t *testing.T) {
	p, e := policyOf(t, Config{Capacity: 28})
	e.size.Lines = 1024
	after := func(live uint64, want int) {
		t.Helper()
		if err := p.Trim(t.Context(), core.Counters{Live: live}, -1); err != nil && !errors.Is(err, e.refuse) || len(e.rehashes) != want {
			t.Fatalf("with %d keys: %v, asked for %v", live, err, e.rehashes)
		}
	}
	after(2000, 0) // an eighth of .9 of 16,384 is 1843
	e.refuse = op.ErrFull
	after(1800, 1)
	after(1700, 1)
	after(900, 2)
	e.refuse = nil
	after(400, 3)
	if want := (Size{Lines: 56, Seed: 7}); e.size != want {
		t.Errorf("400 keys get %+v", e.size)
	}
	after(0, 4)
	after(0, 4)
	if want := (Size{Lines: 2, Seed: 7}); e.size != want {
		t.Errorf("no keys get %+v", e.size)
	}
}

// The number of locks is a power of two. It is at least the number of buckets, up to maxLocks.
func TestLocks(t *testing.T) {
	for _, buckets := range []uint32{1, 2, 7, 8, 1 << 19, 1 << 20, 1<<32 - 1} {
		n := locksFor(buckets)
		if bits.OnesCount(uint(n)) != 1 || n > maxLocks || n < min(int(buckets), maxLocks) || n > max(2, 2*int(buckets)) {
			t.Errorf("%d buckets have %d locks", buckets, n)
		}
	}
}

// A fixed table gets enough slots for Capacity keys, whatever MaxLoad is.
func TestFixedSize(t *testing.T) {
	for _, capacity := range []int{1, 28, 1000, 1 << 20} {
		for _, load := range []float64{.5, .96, 1} {
			c := Config{Capacity: capacity, MaxLoad: load, Fixed: true, SlotBytes: 8, LineMultiple: 2, MaxLines: 1 << 20, FixedLoad: .95}
			first, err := c.First()
			if err != nil || c.fixedKeys(first.Lines) < capacity || core.MaxUsed(c.slots(first.Lines), load) < capacity {
				t.Errorf("%d keys at load %g get %d lines: %v", capacity, load, first.Lines, err)
			}
			if smaller := first.Lines - 2; smaller > 0 && min(c.fixedKeys(smaller), core.MaxUsed(c.slots(smaller), load)) >= capacity {
				t.Errorf("%d keys at load %g: %d lines are too many", capacity, load, first.Lines)
			}
		}
	}
}

// If no seed has helped, no other seed is tried until some keys have gone. If few operations find a
// slot when they run again, another seed comes next.
func TestHopelessTable(t *testing.T) {
	p, e := policyOf(t, Config{Capacity: 280, Fixed: true})
	e.refuse = op.ErrFull
	failed := &batch.Batch{N: 3}
	for _, step := range []struct {
		live uint64
		want int // rehashes so far
	}{{200, reseeds}, {200, reseeds}, {202, reseeds}, {190, 2 * reseeds}} {
		remaining, retry, err := p.Retry(t.Context(), core.Counters{Live: step.live}, failed)
		if len(remaining) != 3 || retry || err != nil || len(e.rehashes) != step.want {
			t.Errorf("with %d keys: still %v, more %v, %v, %d rehashes", step.live, remaining, retry, err, len(e.rehashes))
		}
	}
}
