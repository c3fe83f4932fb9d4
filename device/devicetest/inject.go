package devicetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/device"
)

// Op names an operation that a test can make fail.
type Op string

// These are the operations that [FailAfter] counts and [FailNext] accepts. Operations that free or
// wait are not among them, except for a Resize that shrinks a range.
const (
	OpAlloc        Op = "Alloc"
	OpAllocHost    Op = "AllocHost"
	OpRegister     Op = "Register"
	OpMap          Op = "Map"
	OpReserve      Op = "Reserve"
	OpResize       Op = "Resize"
	OpLoad         Op = "Load"
	OpNewStream    Op = "NewStream"
	OpNewEvent     Op = "NewEvent"
	OpCopyIn       Op = "CopyIn"
	OpCopyOut      Op = "CopyOut"
	OpCopyInAsync  Op = "CopyInAsync"
	OpCopyOutAsync Op = "CopyOutAsync"
	OpCopy         Op = "Copy"
	OpFill         Op = "Fill"
	OpLaunch       Op = "Launch"
	OpRecord       Op = "Record"
	OpWait         Op = "Wait"
)

// memory lists the operations that allocate or map memory.
var memory = []Op{OpAlloc, OpAllocHost, OpRegister, OpMap, OpReserve, OpResize}

// plan is one planned failure.
type plan struct {
	ops   []Op // nil for any operation
	after int  // number of such operations that succeed before the failure
	fired atomic.Bool
}

// failures holds the planned failures that have not happened yet.
type failures struct{ plans []*plan }

// FailAfter makes one operation of dev fail with device.ErrMemory, after n operations that run as
// usual. dev must come from [Checked]. fired reports whether the failure has happened. A loop that
// raises n until fired returns false covers all error paths:
//
//	for n := 0; ; n++ {
//		fired := devicetest.FailAfter(dev, n)
//		err := code()
//		if !fired() {
//			break // it ran to the end
//		}
//		// check err, and devicetest.Live(dev)
//	}
//
// A plan that has not fired stays until it fires, or until [ClearFailures].
func FailAfter(dev device.Device, n int) (fired func() bool) {
	return ledgerOf(dev).plan(&plan{after: n})
}

// FailMemoryAfter makes an operation that allocates or maps memory fail, after n such operations.
func FailMemoryAfter(dev device.Device, n int) (fired func() bool) {
	return ledgerOf(dev).plan(&plan{ops: memory, after: n})
}

// FailNext makes the next operation of kind op fail with device.ErrMemory.
func FailNext(dev device.Device, op Op) (fired func() bool) {
	return ledgerOf(dev).plan(&plan{ops: []Op{op}})
}

// ClearFailures removes the plans that have not fired.
func ClearFailures(dev device.Device) {
	l := ledgerOf(dev)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plans = nil
}

// Live returns the numbers of resources that have not been released.
func Live(dev device.Device) Counts { return ledgerOf(dev).counts() }

func (l *ledger) plan(p *plan) (fired func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plans = append(l.plans, p)
	return p.fired.Load
}

// begin is called first by every operation. It returns an error if the device is closed, or if a
// planned failure is due.
func (l *ledger) begin(op Op) error {
	l.t.Helper()
	if err := l.checkOpen(string(op)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var due *plan
	kept := l.plans[:0]
	for _, p := range l.plans {
		switch {
		case len(p.ops) > 0 && !slices.Contains(p.ops, op):
			kept = append(kept, p)
		case p.after > 0 || due != nil:
			p.after--
			kept = append(kept, p)
		default:
			due = p
		}
	}
	l.plans = kept
	if due == nil {
		return nil
	}
	due.fired.Store(true)
	return &planned{op}
}

// planned is the error of a planned failure.
type planned struct{ op Op }

func (p *planned) Error() string {
	return fmt.Sprintf("devicetest: failure of %s as planned: %v", p.op, device.ErrMemory)
}

func (p *planned) Unwrap() error { return device.ErrMemory }

// IsMemoryFailure reports whether err is a planned failure of an operation that allocates or maps
// memory.
func IsMemoryFailure(err error) bool {
	var p *planned
	return errors.As(err, &p) && slices.Contains(memory, p.op)
}

// checkOpen fails the test and returns an error if the device is closed.
func (l *ledger) checkOpen(op string) error {
	l.t.Helper()
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return l.violation(device.ErrClosed, "%s after the device was closed", op)
	}
	return nil
}

// FailEach calls run repeatedly. In each call, another operation of dev fails; in the last call,
// none does. FailEach fails the test if a call with a failure does not return device.ErrMemory, or
// if a call leaves new resources.
func FailEach(t testing.TB, dev device.Device, name string, run func() error) {
	t.Helper()
	before := Live(dev)
	for n := 0; ; n++ {
		fired := FailAfter(dev, n)
		err := run()
		ClearFailures(dev)
		ended := !fired()
		if ended != (err == nil) || !ended && !errors.Is(err, device.ErrMemory) {
			t.Fatalf("%s, failure of operation %d: %v", name, n, err)
		}
		if live := Live(dev); live != before {
			t.Fatalf("%s, failure of operation %d: it left %+v, before there was %+v", name, n, live, before)
		}
		if ended {
			return
		}
	}
}
