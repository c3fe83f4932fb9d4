package spill

import (
	"errors"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft/internal/op"
)

func TestBudget(t *testing.T) {
	b := NewBudget(100)
	check(t, b.Reserve(60))
	for _, n := range []int64{41, math.MaxInt64} {
		err := b.Reserve(n)
		if !errors.Is(err, op.ErrFull) || !strings.Contains(err.Error(), "set Memory higher") {
			t.Errorf("%d more: %v", n, err)
		}
	}
	check(t, b.Reserve(40))
	b.Release(100)
	if b.Used() != 0 || b.Peak() != 100 || b.Limit() != 100 {
		t.Errorf("used %d, peak %d of %d", b.Used(), b.Peak(), b.Limit())
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("released more than reserved")
			}
		}()
		b.Release(1)
	}()
	var unlimited *Budget
	check(t, unlimited.Reserve(math.MaxInt64))
	unlimited.Release(1)
	if unlimited.Used() != 0 || unlimited.Peak() != 0 || unlimited.Limit() != 0 {
		t.Error("no budget counts")
	}
}

// Goroutines together never hold more than the limit, and memory that they return is free again.
func TestBudgetConcurrently(t *testing.T) {
	b := NewBudget(1000)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				n := int64(1 + (i*g)%400)
				if b.Reserve(n) == nil {
					if used := b.Used(); used > 1000 {
						t.Errorf("%d in use", used)
					}
					b.Release(n)
				}
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 || b.Peak() > 1000 || b.Peak() < 1 {
		t.Errorf("used %d, peak %d", b.Used(), b.Peak())
	}
}

// Memory keeps its contents while it doubles, and the budget counts all of it.
func TestMemory(t *testing.T) {
	type record struct {
		key  uint64
		rows [3]uint32
	}
	b := NewBudget(0)
	m, err := Make[record](b, 10)
	check(t, err)
	n := len(m.Slice)
	for i := range m.Slice {
		m.Slice[i] = record{uint64(i), [3]uint32{uint32(i)}}
	}
	for n < 1<<18 {
		check(t, m.Grow(2*n))
		check(t, m.Grow(n)) // does nothing
		for i := range m.Slice {
			written := record{uint64(i), [3]uint32{uint32(i)}}
			want := written
			if i >= n {
				want = record{}
			}
			if m.Slice[i] != want {
				t.Fatalf("record %d of %d is %v", i, len(m.Slice), m.Slice[i])
			}
			m.Slice[i] = written
		}
		n *= 2
		if used := b.Used(); used < int64(24*n) || used > int64(24*n+os.Getpagesize()) {
			t.Errorf("%d bytes counted for %d", used, 24*n)
		}
	}
	m.Free()
	m.Free()
	if b.Used() != 0 || m.Slice != nil {
		t.Errorf("%d bytes in use", b.Used())
	}
	empty, err := Make[byte](b, 0)
	check(t, err)
	check(t, empty.Grow(1))
	empty.Free()
}

// If any reservation fails, memory stays unchanged, and everything is returned.
func TestMemoryFails(t *testing.T) {
	injected := errors.New("injected")
	run := func(b *Budget) error {
		m, err := Make[uint32](b, 1000)
		if err != nil {
			return err
		}
		defer m.Free()
		for i := range m.Slice {
			m.Slice[i] = uint32(i)
		}
		for n := 2000; n <= 1_000_000; n *= 2 {
			if err = m.Grow(n); err != nil {
				break
			}
		}
		for i, x := range m.Slice[:1000] {
			if x != uint32(i) {
				t.Fatalf("value %d is %d", i, x)
			}
		}
		return err
	}
	for fail := range 20 {
		b, calls := NewBudget(0), 0
		b.Hook = func(int64) error {
			if calls++; calls > fail {
				return injected
			}
			return nil
		}
		if err := run(b); (err != nil) != (calls > fail) || err != nil && err != injected {
			t.Errorf("reservation %d: %v", fail, err)
		}
		if b.Used() != 0 {
			t.Errorf("reservation %d: %d bytes in use", fail, b.Used())
		}
	}
	if err := run(NewBudget(64 << 10)); !errors.Is(err, op.ErrFull) {
		t.Error(err)
	}
	for _, n := range []int{-1, math.MaxInt, math.MaxInt / 8} {
		b := NewBudget(0)
		if _, err := Make[uint64](b, n); !errors.Is(err, op.ErrFull) || b.Used() != 0 {
			t.Errorf("%d values: %v, %d in use", n, err, b.Used())
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("pointers in memory that the collector does not scan")
		}
	}()
	_, _ = Make[struct{ s [2]string }](nil, 1)
}
