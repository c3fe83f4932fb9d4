package devicetest

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Counts are the things that a test has not given back yet.
type Counts struct {
	Buffers       int // of Alloc
	Host          int // of AllocHost
	Registrations int
	Streams       int
	Events        int
	Bytes         int // of buffers and host memory
}

// The kinds of things that a ledger holds.
const (
	kindBuffer       = "buffer"
	kindHost         = "host memory"
	kindRegistration = "registration"
	kindStream       = "stream"
	kindEvent        = "event"
)

// entry is one thing that has to be given back.
type entry struct {
	kind  string
	order int
	at    uint64 // address of memory
	size  int    // bytes of memory
	where string // who made it
}

func (e *entry) String() string {
	if e.size > 0 {
		return fmt.Sprintf("%s of %d bytes from %s", e.kind, e.size, e.where)
	}
	return e.kind + " from " + e.where
}

// holds reports whether [at,at+size) lies within the entry's memory.
func (e *entry) holds(at uint64, size int) bool {
	return at >= e.at && size >= 0 && at-e.at <= uint64(e.size) && uint64(size) <= uint64(e.size)-(at-e.at)
}

// ledger is the book of what a test holds, and the plan of what is to fail.
type ledger struct {
	t      testing.TB
	mu     sync.Mutex
	live   map[*entry]struct{}
	made   int
	closed bool // the device
	failures
}

// enter writes down something new.
func (l *ledger) enter(kind string, at uint64, size int) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	e := &entry{kind, l.made, at, size, caller()}
	l.live[e] = struct{}{}
	return e
}

// strike takes out what has been given back; false if it was not there.
func (l *ledger) strike(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.live[e]
	delete(l.live, e)
	return ok
}

// find gives the entry of one of kinds that satisfies ok, or nil.
func (l *ledger) find(ok func(*entry) bool, kinds ...string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.live {
		if slices.Contains(kinds, e.kind) && ok(e) {
			return e
		}
	}
	return nil
}

// violation fails the test and returns an error for the caller.
func (l *ledger) violation(sentinel error, format string, args ...any) error {
	l.t.Helper()
	what := fmt.Sprintf(format, args...)
	l.t.Errorf("devicetest: %s, at %s", what, caller())
	return fmt.Errorf("devicetest: %w: %s", sentinel, what)
}

// report fails the test for everything that was not given back.
func (l *ledger) report() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.SortedFunc(maps.Keys(l.live), func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	for _, e := range left {
		l.t.Errorf("devicetest: leaked %v", e)
	}
}

func (l *ledger) counts() (c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.live {
		switch e.kind {
		case kindBuffer:
			c.Buffers++
			c.Bytes += e.size
		case kindHost:
			c.Host++
			c.Bytes += e.size
		case kindRegistration:
			c.Registrations++
		case kindStream:
			c.Streams++
		case kindEvent:
			c.Events++
		}
	}
	return c
}

func hostAddress(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// callerDepth is how many calls a place shows: the allocation in a structure,
// and the way to it from the test.
const callerDepth = 4

// caller names the calls that led here, from the first outside of this package
// and package device.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var places []string
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "testing."), strings.HasPrefix(f.Function, "runtime."):
		case strings.HasPrefix(f.Function, devicePath+"."), strings.HasPrefix(f.Function, devicePath+"/devicetest."):
		default:
			dir := filepath.Base(filepath.Dir(f.File))
			places = append(places, fmt.Sprintf("%s/%s:%d", dir, filepath.Base(f.File), f.Line))
		}
		if !more || len(places) == callerDepth {
			break
		}
	}
	if len(places) == 0 {
		return "unknown place"
	}
	return strings.Join(places, ", called from ")
}

// devicePath is the import path of package device.
const devicePath = "github.com/weftgo/weft/device"

// checkBuffer refuses memory that is not within a buffer.
func (l *ledger) checkBuffer(op Op, p device.Ptr, size int) error {
	if size <= 0 {
		return nil
	}
	l.t.Helper()
	if l.find(func(e *entry) bool { return e.holds(uint64(p), size) }, kindBuffer) == nil {
		return l.violation(device.ErrInvalid, "%s of %d bytes at %#x, which are not within a buffer", op, size, uint64(p))
	}
	return nil
}

// checkHost refuses host memory that a GPU could not copy asynchronously.
func (l *ledger) checkHost(op Op, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	l.t.Helper()
	in := func(e *entry) bool { return e.holds(hostAddress(b), len(b)) }
	if l.find(in, kindHost, kindRegistration) == nil {
		return l.violation(device.ErrInvalid, "%s of %d bytes of host memory that are not from AllocHost or Register", op, len(b))
	}
	return nil
}
