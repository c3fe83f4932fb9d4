package spill

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/op"
)

// Budget counts memory against a limit. All methods are safe for concurrent use. A nil Budget
// counts nothing and refuses nothing.
type Budget struct {
	// Hook, if set, runs before each reservation, and its error refuses the reservation. Tests
	// set it before the budget is used.
	Hook func(n int64) error

	limit, used, peak atomic.Int64
}

// NewBudget returns a budget of limit bytes; 0: no limit.
func NewBudget(limit int64) *Budget {
	b := new(Budget)
	b.limit.Store(limit)
	return b
}

// Reserve counts n more bytes. If they exceed the limit, Reserve counts nothing and returns an
// error that wraps weft.ErrFull.
func (b *Budget) Reserve(n int64) error {
	if b == nil {
		return nil
	}
	if b.Hook != nil {
		if err := b.Hook(n); err != nil {
			return err
		}
	}
	limit := b.limit.Load()
	for {
		used := b.used.Load()
		if limit > 0 && n > limit-used {
			return fmt.Errorf(
				"spill: memory %w: %d bytes more, with %d of %d in use; set Memory higher",
				op.ErrFull, n, used, limit)
		}
		if b.used.CompareAndSwap(used, used+n) {
			break
		}
	}
	for sum := b.used.Load(); ; {
		peak := b.peak.Load()
		if sum <= peak || b.peak.CompareAndSwap(peak, sum) {
			return nil
		}
	}
}

// Release takes back n bytes of Reserve. More than are in use panic.
func (b *Budget) Release(n int64) {
	if b != nil && b.used.Add(-n) < 0 {
		panic("spill: a budget got more bytes back than it had reserved")
	}
}

// Limit returns the limit in bytes; 0: none.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return b.limit.Load()
}

// Used returns the bytes in use.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Peak returns the most bytes that were in use at one time.
func (b *Budget) Peak() int64 {
	if b == nil {
		return 0
	}
	return b.peak.Load()
}

// Memory is a slice outside of the Go heap, which a budget counts in whole pages. One goroutine
// uses it at a time.
type Memory[T any] struct {
	// Slice is the memory. Grow replaces it, and Free ends it: use of an older one is a fault of
	// the process.
	Slice []T

	budget *Budget
	bytes  []byte
}

// Make maps n zeroed values, which must hold no pointers. The error wraps weft.ErrFull if the
// budget is exhausted.
func Make[T any](b *Budget, n int) (*Memory[T], error) {
	if t := reflect.TypeFor[T](); hasPointers(t) {
		panic(fmt.Sprintf("spill: memory outside of the Go heap for %v, which has pointers", t))
	}
	m := &Memory[T]{budget: b}
	if n == 0 {
		return m, nil
	}
	if err := m.resize(n); err != nil {
		return nil, err
	}
	return m, nil
}

// Grow makes the slice n values long and keeps its contents; new values are zero. Linux moves the
// memory without a copy. Elsewhere the budget counts both while they are copied. An n below the
// length does nothing. On an error the slice is as it was.
func (m *Memory[T]) Grow(n int) error {
	if n <= len(m.Slice) {
		return nil
	}
	return m.resize(n)
}

// Shrink makes the slice n values long, at least one, and returns the memory of the others. It does
// nothing if the slice is not longer. Where the system cannot, the slice stays as it is.
func (m *Memory[T]) Shrink(n int) {
	if n = max(n, 1); n < len(m.Slice) {
		_ = m.resize(n) // which leaves all as it was
	}
}

func (m *Memory[T]) resize(n int) error {
	size, err := sizeOf[T](n)
	if err != nil {
		return err
	}
	old := int64(hostmem.Round(len(m.bytes)))
	more := int64(hostmem.Round(size)) - old
	moving := int64(0)
	if hostmem.Copies {
		moving = old
	}
	if err := m.budget.Reserve(more + moving); err != nil {
		return err
	}
	defer m.budget.Release(moving)
	var to []byte
	if m.bytes == nil {
		to, err = hostmem.Map(size)
	} else {
		to, err = hostmem.Remap(m.bytes, size)
	}
	if err != nil {
		m.budget.Release(more)
		return fmt.Errorf("spill: memory %w: the system refuses %d bytes: %w; set Memory lower",
			op.ErrFull, size, err)
	}
	m.bytes = to
	m.Slice = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(to))), n)
	return nil
}

// Free returns the memory to the system. A second call does nothing.
func (m *Memory[T]) Free() {
	if m.bytes == nil {
		return
	}
	n := int64(hostmem.Round(len(m.bytes)))
	if err := hostmem.Unmap(m.bytes); err != nil {
		panic(fmt.Sprintf("spill: unmap %d bytes: %v", n, err)) // the address is wrong, so more is
	}
	m.bytes, m.Slice = nil, nil
	m.budget.Release(n)
}

// sizeOf returns the bytes of n values.
func sizeOf[T any](n int) (int, error) {
	const maxBytes = int(^uint(0)>>1) - 4*hostmem.HugePage
	size := int(unsafe.Sizeof(*new(T)))
	if n < 0 || size > 0 && n > maxBytes/size {
		return 0, fmt.Errorf("spill: memory %w: %d values of %d bytes", op.ErrFull, n, size)
	}
	return max(n*size, 1), nil
}

// hasPointers reports whether values of a type lead to the Go heap.
func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k == reflect.Array:
		return hasPointers(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return k < reflect.Bool || k > reflect.Complex128
	}
}
