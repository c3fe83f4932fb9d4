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
// counts nothing and has no limit.
type Budget struct {
	// Hook, if set, runs before each reservation. If it returns an error, the reservation fails
	// with that error. Tests set Hook before the budget is used.
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

// Release subtracts n bytes that Reserve counted. It panics if n exceeds the bytes in use.
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

// Peak returns the maximum number of bytes that were in use at one time.
func (b *Budget) Peak() int64 {
	if b == nil {
		return 0
	}
	return b.peak.Load()
}

// Memory is a slice outside the Go heap, which a budget counts in whole pages. One goroutine may
// use it at a time.
type Memory[T any] struct {
	// Slice is the memory. Grow and Shrink may replace it, and Free ends it. Use of an earlier
	// slice may crash the process.
	Slice []T

	budget *Budget
	bytes  []byte
}

// Make maps n zeroed values, which must not contain pointers. If the budget is exhausted, the error
// wraps weft.ErrFull.
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

// Grow makes the slice n values long and keeps its contents. New values are zero. Linux moves the
// memory without a copy. On other systems the budget counts both the old and the new memory during
// the copy. If n is at most the length, Grow does nothing. After an error the slice is unchanged.
func (m *Memory[T]) Grow(n int) error {
	if n <= len(m.Slice) {
		return nil
	}
	return m.resize(n)
}

// Shrink makes the slice n values long, at least one, and returns the memory of the other values to
// the system. It does nothing if the slice is not longer, or if the system cannot shrink it.
func (m *Memory[T]) Shrink(n int) {
	if n = max(n, 1); n < len(m.Slice) {
		_ = m.resize(n) // after an error the slice is unchanged
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

// Free returns the memory to the system. Free is idempotent.
func (m *Memory[T]) Free() {
	if m.bytes == nil {
		return
	}
	n := int64(hostmem.Round(len(m.bytes)))
	if err := hostmem.Unmap(m.bytes); err != nil {
		panic(fmt.Sprintf("spill: unmap %d bytes: %v", n, err)) // only a wrong address fails
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

// hasPointers reports whether values of a type may contain pointers to the Go heap.
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
