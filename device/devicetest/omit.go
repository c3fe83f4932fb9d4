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

// Site is a place in source code where a method of the host protocol is called. The host protocol
// is the calls that order streams or wait for them.
type Site struct {
	File string // name with its folder: "staging/slot.go"
	Line int    // line of the method name
	// Method is the name of the method: Wait, Record or Sync of a stream, an event or a device.
	// CopyOut stands for Stream.CopyOut and Slice.CopyTo.
	Method string
	// Index distinguishes calls of the same method on one line, in the order in which they run,
	// from 0. If a function is inlined twice on one line, its calls count twice.
	Index int
}

// String returns the place, in the form that compilers use, and the method.
func (s Site) String() string {
	if s.Index == 0 {
		return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Method)
	}
	return fmt.Sprintf("%s:%d: %s, number %d", s.File, s.Line, s.Method, s.Index+1)
}

// Omission leaves out calls of the host protocol on the devices that it wraps, and counts all calls
// of that protocol. A test can use it to check that it fails without a call:
//
//	calls, err := devicetest.ListCalls(".")
//	for _, call := range calls {
//		o := devicetest.Omit(call.Site)
//		// run with o.Wrap(dev), and expect a wrong result
//	}
type Omission struct {
	sites []Site

	mu   sync.Mutex
	seen map[Site]int
}

// Omit returns an Omission that leaves out the calls at the sites. Wait, Record and Sync then do
// nothing and return nil. CopyOut submits the copy but does not wait for it, so the device must
// accept any host memory in CopyOutAsync.
func Omit(sites ...Site) *Omission { return &Omission{sites: sites, seen: map[Site]int{}} }

// Seen returns how often each site was called, including omitted calls. The site of a call is the
// first caller outside the packages device and devicetest. Calls by devicetest itself do not count.
func (o *Omission) Seen() map[Site]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.seen)
}

// Wrap returns a device that behaves like dev, except for the omitted calls. The result is a
// [device.Host] if dev is one. To use [Checked] too, pass the result to it.
func (o *Omission) Wrap(dev device.Device) device.Device {
	d := &omitting{Device: dev, o: o}
	d.self = d
	if h, ok := dev.(device.Host); ok {
		d.self = &omittingHost{d, h}
	}
	return d.self
}

// leavesOut counts a call of the method and reports whether to omit it.
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

type omitting struct {
	device.Device
	self device.Device // this device, or the omittingHost around it
	o    *Omission
}

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

// omittedFrom returns the event of the wrapped device. It returns any other event unchanged, which
// the device then rejects.
func omittedFrom(e device.EventDriver) device.EventDriver {
	if o, ok := e.(*omittingEvent); ok {
		return o.EventDriver
	}
	return e
}

// siteOf returns the first caller outside the packages device and devicetest. It reports false if
// devicetest itself makes the call.
func siteOf(method string) (Site, bool) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var (
		call    uintptr // call instruction, possibly within an inlined function
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
			// Wrappers only pass calls on; other functions of devicetest make calls themselves.
			if !strings.HasSuffix(f.Function, "."+method) {
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

// lineOfCode is a source line within one piece of compiled code. A line can have several pieces:
// one for each type of a generic function, and one for each line into which its function is
// inlined.
type lineOfCode struct {
	line Site
	code uintptr
}

// counter assigns indexes to the call instructions of a line, in the order of their first run. This
// is the source order, unless a condition on the line makes the second call run first.
type counter struct {
	mu  sync.Mutex
	pcs map[lineOfCode][]uintptr
}

// indexes is shared by all omissions, since a test finds sites with one omission and leaves them
// out with another.
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
