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

// Counts holds the numbers of resources that a test has not released yet.
type Counts struct {
	Buffers       int // buffers that Alloc returned
	Host          int // blocks that AllocHost returned
	Registrations int
	Mappings      int
	Ranges        int
	Streams       int
	Events        int
	Bytes         int // total bytes of buffers, of host memory and of the mapped parts of ranges
}

// These are the kinds of resources in a ledger.
const (
	kindBuffer       = "buffer"
	kindHost         = "host memory"
	kindRegistration = "registration"
	kindMapping      = "mapping"
	kindRange        = "range"
	kindStream       = "stream"
	kindEvent        = "event"
)

// entry is a resource that must be released.
type entry struct {
	kind    string
	order   int
	at      uint64 // address of device memory, or 0
	host    uint64 // address of host memory, or 0
	size    int    // bytes of memory, or 0
	callers string // calls that created the resource
}

func (e *entry) String() string {
	if e.size > 0 {
		return fmt.Sprintf("%s of %d bytes from %s", e.kind, e.size, e.callers)
	}
	return e.kind + " from " + e.callers
}

// holds reports whether [at,at+size) lies within the entry's memory. base is the device or host
// address of that memory.
func (e *entry) holds(base, at uint64, size int) bool {
	return at >= base && size >= 0 && at-base <= uint64(e.size) && uint64(size) <= uint64(e.size)-(at-base)
}

// overlaps reports whether b shares a byte with the entry's host memory.
func (e *entry) overlaps(b []byte) bool {
	at := hostAddress(b)
	return at < e.host+uint64(e.size) && e.host < at+uint64(len(b))
}

// ledger records the live resources of a test and the planned failures.
type ledger struct {
	t      testing.TB
	mu     sync.Mutex
	live   map[*entry]struct{}
	made   int
	closed bool // whether the device is closed
	failures
}

// addEntry adds a new resource.
func (l *ledger) addEntry(e entry) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	e.order, e.callers = l.made, caller()
	l.live[&e] = struct{}{}
	return &e
}

func (l *ledger) resize(e *entry, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.size = size
}

// removeEntry removes a released resource. It returns false if the ledger does not contain it.
func (l *ledger) removeEntry(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.live[e]
	delete(l.live, e)
	return ok
}

// find returns an entry that is of one of the kinds and for which ok returns true, or nil.
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

// violation fails the test and returns an error that wraps sentinel.
func (l *ledger) violation(sentinel error, format string, args ...any) error {
	l.t.Helper()
	name := fmt.Sprintf(format, args...)
	l.t.Errorf("devicetest: %s, at %s", name, caller())
	return fmt.Errorf("devicetest: %w: %s", sentinel, name)
}

// report fails the test for each resource that was not released.
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
		case kindMapping:
			c.Mappings++
		case kindRange:
			c.Ranges++
			c.Bytes += e.size
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

// callerDepth is the maximum number of calls that caller names: the allocation in a structure, and
// the calls that led to it from the test.
const callerDepth = 4

// caller returns the places of the innermost calls outside this package and package device.
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

// checkBuffer fails the test and returns an error unless the memory lies within a buffer, a mapping
// or the mapped part of a range.
func (l *ledger) checkBuffer(op Op, p device.Ptr, size int) error {
	if size <= 0 {
		return nil
	}
	l.t.Helper()
	in := func(e *entry) bool { return e.holds(e.at, uint64(p), size) }
	if l.find(in, kindBuffer, kindMapping, kindRange) == nil {
		return l.violation(device.ErrInvalid, "%s of %d bytes at %#x, which are not within a buffer, a mapping or what is mapped of a range", op, size, uint64(p))
	}
	return nil
}

// checkHost fails the test and returns an error if a GPU cannot copy b asynchronously.
func (l *ledger) checkHost(op Op, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	l.t.Helper()
	if !l.pinned(b) {
		return l.violation(device.ErrInvalid, "%s of %d bytes of host memory that are not from AllocHost, Register or Map", op, len(b))
	}
	return nil
}

// pinned reports whether b lies within one block of AllocHost, Register or Map.
func (l *ledger) pinned(b []byte) bool {
	in := func(e *entry) bool { return e.holds(e.host, hostAddress(b), len(b)) }
	return l.find(in, kindHost, kindRegistration, kindMapping) != nil
}
