package devicetest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftgo/weft/device"
)

// Site is a call of the host protocol in the source: of a method that orders
// streams, or waits for them.
type Site struct {
	File string // with its folder: "staging/slot.go"
	Line int    // on which the name of the method stands
	// Method is Wait, Record or Sync, of streams, events and devices, or CopyOut
	// for that and for Slice.CopyTo.
	Method string
	// Index tells apart several calls of a method on one line, in the order in
	// which they run: 0 for the first. Where a function is inlined twice on one
	// line, its calls count twice.
	Index int
}

// String is how compilers write a place, and the method.
func (s Site) String() string {
	if s.Index == 0 {
		return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Method)
	}
	return fmt.Sprintf("%s:%d: %s, number %d", s.File, s.Line, s.Method, s.Index+1)
}

// Omission leaves calls of the host protocol out, on all devices that it wraps,
// and counts all calls. A test that does so finds out whether it would notice
// their lack:
//
//	calls, err := devicetest.ListCalls(".")
//	for _, call := range calls {
//		o := devicetest.Omit(call.Site)
//		// run with o.Wrap(dev), and want it to go wrong
//	}
type Omission struct {
	sites []Site

	mu   sync.Mutex
	seen map[Site]int
}

// Omit makes an omission of the calls at some sites. Wait, Record and Sync then
// do nothing and return nil; CopyOut submits the copy and doesn't wait for it,
// so the device must take any host memory for CopyOutAsync.
func Omit(sites ...Site) *Omission { return &Omission{sites: sites, seen: map[Site]int{}} }

// Seen is how often each site was called, also if its calls were left out. A
// site counts as the first caller outside of packages device and devicetest;
// what devicetest does on its own account does not count.
func (o *Omission) Seen() map[Site]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.seen)
}

// Wrap makes a device that is like dev but for the omission. The result is a
// [device.Host] when dev is one. To use [Checked] too, wrap that around it.
func (o *Omission) Wrap(dev device.Device) device.Device {
	d := &omitting{Device: dev, o: o}
	d.self = d
	if h, ok := dev.(device.Host); ok {
		d.self = &omittingHost{d, h}
	}
	return d.self
}

// leavesOut counts a call, and tells whether it is to be left out.
func (o *Omission) leavesOut(method string) bool {
	site, ok := siteOf(method)
	if !ok {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[site]++
	return slices.Contains(o.sites, site)
}

// omitting is a device under an omission.
type omitting struct {
	device.Device
	self device.Device // what callers see: this, or the omittingHost around it
	o    *Omission
}

// omittingHost is omitting for a [device.Host].
type omittingHost struct {
	*omitting
	host device.Host
}

func (d *omittingHost) Parallel(n, grain int, body func(lo, hi int)) { d.host.Parallel(n, grain, body) }

func (d *omitting) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d.self, &omittingStream{s.Driver(), d.o}), nil
}

func (d *omitting) NewEvent() (*device.Event, error) {
	e, err := d.Device.NewEvent()
	if err != nil {
		return nil, err
	}
	return device.NewEvent(&omittingEvent{e.Driver(), d.o}), nil
}

func (d *omitting) Sync(ctx context.Context) error {
	if d.o.leavesOut("Sync") {
		return nil
	}
	return d.Device.Sync(ctx)
}

// omittingStream is a stream under an omission.
type omittingStream struct {
	device.StreamDriver
	o *Omission
}

func (s *omittingStream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	if s.o.leavesOut("CopyOut") {
		return s.CopyOutAsync(dst, src)
	}
	return s.StreamDriver.CopyOut(ctx, dst, src)
}

func (s *omittingStream) Record(e device.EventDriver) error {
	if s.o.leavesOut("Record") {
		return nil
	}
	return s.StreamDriver.Record(omittedFrom(e))
}

func (s *omittingStream) Wait(e device.EventDriver) error {
	if s.o.leavesOut("Wait") {
		return nil
	}
	return s.StreamDriver.Wait(omittedFrom(e))
}

func (s *omittingStream) Sync(ctx context.Context) error {
	if s.o.leavesOut("Sync") {
		return nil
	}
	return s.StreamDriver.Sync(ctx)
}

// omittingEvent is an event under an omission.
type omittingEvent struct {
	device.EventDriver
	o *Omission
}

func (e *omittingEvent) Sync(ctx context.Context) error {
	if e.o.leavesOut("Sync") {
		return nil
	}
	return e.EventDriver.Sync(ctx)
}

func (e *omittingEvent) Since(start device.EventDriver) (time.Duration, error) {
	return e.EventDriver.Since(omittedFrom(start))
}

// omittedFrom gives the event of the device itself; another device's is for
// that device to refuse.
func omittedFrom(e device.EventDriver) device.EventDriver {
	if o, ok := e.(*omittingEvent); ok {
		return o.EventDriver
	}
	return e
}

// siteOf names the first caller outside of packages device and devicetest;
// false if devicetest calls on its own account.
func siteOf(method string) (Site, bool) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var (
		call    uintptr // the instruction, which may belong to a function that is inlined
		inlined bool
	)
	for {
		f, more := frames.Next()
		if !inlined {
			call = f.PC
		}
		inlined = f.Func == nil
		switch {
		case strings.HasPrefix(f.Function, devicePath+"."), strings.HasSuffix(f.Function, ".leavesOut"):
		case strings.HasPrefix(f.Function, devicePath+"/devicetest."):
			if !strings.HasSuffix(f.Function, "."+method) { // what wraps a device only hands calls on
				return Site{}, false
			}
		default:
			code := f.Entry
			if inlined && more {
				caller, _ := frames.Next()
				code = caller.PC
			}
			file := filepath.Base(filepath.Dir(f.File)) + "/" + filepath.Base(f.File)
			site := Site{File: file, Line: f.Line, Method: method}
			site.Index = indexes.of(lineOfCode{site, code}, call)
			return site, true
		}
		if !more {
			return Site{}, false
		}
	}
}

// lineOfCode is a line as part of compiled code, of which there may be more
// than one: of a generic function, one for each of its types; of a function
// that is inlined, one for each line that it is called from.
type lineOfCode struct {
	line Site
	code uintptr
}

// counter numbers the instructions that call, for each line of code, as they
// first run: that is the order of the source, unless a condition on that line
// makes the second call run before the first.
type counter struct {
	mu  sync.Mutex
	pcs map[lineOfCode][]uintptr
}

// indexes are the same for all omissions, since a test collects sites by one
// and leaves them out by another.
var indexes = counter{pcs: map[lineOfCode][]uintptr{}}

func (c *counter) of(line lineOfCode, pc uintptr) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.pcs[line], pc)
	if i < 0 {
		i = len(c.pcs[line])
		c.pcs[line] = append(c.pcs[line], pc)
	}
	return i
}
