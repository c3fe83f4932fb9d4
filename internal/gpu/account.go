package gpu

import (
	"errors"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../cmd/weftgen -export -struct weft::Terms ../../kernels/include/weft/ref.cuh

// Bits of the mode of a Ref, through which users' kernels access a table (see ref.cuh). The widths
// of keys and values follow in higher bits.
const (
	MayInsert  = 1 << iota // the kernel may insert keys and combine values
	MayReplace             // the kernel may also replace values and erase keys
	WideFind
	WideChange
	IsMulti
	InCache
)

// ReadTerms returns the terms of a Ref that only reads. If a kernel changes the table through that
// Ref, the device counts the change as dropped.
func (q *Queue) ReadTerms() Terms {
	return Terms{Account: q.Word(WordDropped), Mode: uint32(q.Widths.Key<<8 | q.Widths.Val<<16)}
}

// ChangeTerms returns the terms of a Ref that may change a table and insert up to limit keys.
func (q *Queue) ChangeTerms(limit int) Terms {
	t := q.ReadTerms()
	t.Limit = uint32(limit)
	t.Mode |= MayInsert | MayReplace
	return t
}

// ReduceTerms returns a copy of t for kernels that neither put nor erase.
func (t Terms) ReduceTerms() Terms {
	t.Mode &^= MayReplace
	return t
}

// Update implements [core.Updater].
func (e *Engine) Update(s *device.Stream, n int, f func() error) error {
	k, err := e.loadKernels()
	if err != nil {
		return err
	}
	e.stale = true
	e.used.Add(uint64(n))
	return e.SubmitVisible(s, func() (err error) {
		defer func() { // runs even if f fails, to count the work that f has submitted
			p := settleParams{counters: linesOf(e.Parts()).TallyPtr(), account: e.Word(WordDropped)}
			err = errors.Join(err, device.Launch(s, k.apply, Grid(1), Block, &p))
		}()
		return f()
	})
}
