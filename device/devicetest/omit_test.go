package devicetest_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// refusing is a device that counts the calls of the host protocol that reach it, and returns an
// error for each.
type refusing struct {
	device.Device
	calls atomic.Int32
}

var errRefused = errors.New("refused")

func (r *refusing) refuse() error {
	r.calls.Add(1)
	return errRefused
}

func (r *refusing) NewStream() (*device.Stream, error) {
	s, err := r.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(r, refusingStream{s.Driver(), r}), nil
}

func (r *refusing) NewEvent() (*device.Event, error) {
	e, err := r.Device.NewEvent()
	if err != nil {
		return nil, err
	}
	return device.NewEvent(refusingEvent{e.Driver(), r}), nil
}

func (r *refusing) Sync(context.Context) error { return r.refuse() }

type refusingStream struct {
	device.StreamDriver
	r *refusing
}

func (s refusingStream) CopyOut(context.Context, []byte, device.Ptr) error { return s.r.refuse() }
func (s refusingStream) Record(device.EventDriver) error                   { return s.r.refuse() }
func (s refusingStream) Wait(device.EventDriver) error                     { return s.r.refuse() }
func (s refusingStream) Sync(context.Context) error                        { return s.r.refuse() }

type refusingEvent struct {
	device.EventDriver
	r *refusing
}

func (e refusingEvent) Sync(context.Context) error { return e.r.refuse() }

func openSim(t testing.TB) device.Device {
	t.Helper()
	d, err := sim.Open(nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// under runs the protocol on a refusing device wrapped by o. It returns how many calls reached the
// device.
func under(t *testing.T, o *devicetest.Omission, inner device.Device, check bool) int {
	t.Helper()
	r := &refusing{Device: inner}
	dev := o.Wrap(r)
	if check {
		dev = devicetest.Checked(t, dev)
	}
	p, err := openProtocol(t.Context(), dev)
	must(t, err)
	if p.a.Device() != dev {
		t.Error("a stream of another device")
	}
	if err := p.run(); !errors.Is(err, errRefused) {
		t.Errorf("all calls are refused: %v", err)
	}
	must(t, p.close())
	return int(r.calls.Load())
}

//go:embed protocol_test.go
var protocolSource []byte

func protocolCalls(t *testing.T) []devicetest.Call {
	t.Helper()
	calls, err := devicetest.CallsOf("devicetest/protocol_test.go", protocolSource)
	must(t, err)
	return calls
}

// The calls seen equal those in the source, and each call can be omitted alone.
func TestOmit(t *testing.T) {
	calls := protocolCalls(t)
	inSource := map[devicetest.Site]bool{}
	for _, c := range calls {
		inSource[c.Site] = true
	}
	for name, open := range map[string]func(testing.TB) device.Device{"cpu": openCPU, "sim": openSim} {
		for _, check := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, checked %v", name, check), func(t *testing.T) {
				dev := open(t)
				all := devicetest.Omit()
				total := under(t, all, dev, check)
				seen, sum := all.Seen(), 0
				for site, n := range seen {
					if sum += n; !inSource[site] {
						t.Errorf("%v is not in the source", site)
					}
				}
				if sum != total {
					t.Errorf("%d calls seen, %d have reached the device", sum, total)
				}
				for _, call := range calls {
					o := devicetest.Omit(call.Site)
					if got, n := under(t, o, dev, check), seen[call.Site]; n == 0 || got != total-n {
						t.Errorf("%v: seen %d times; left out, %d of %d calls have reached the device", call, n, got, total)
					}
					if !maps.Equal(o.Seen(), seen) {
						t.Errorf("%v left out: seen are %v, want %v", call, o.Seen(), seen)
					}
				}
				both := devicetest.Omit(calls[0].Site, calls[1].Site)
				if got := under(t, both, dev, check); got != total-seen[calls[0].Site]-seen[calls[1].Site] {
					t.Errorf("two sites left out: %d of %d calls have reached the device", got, total)
				}
			})
		}
	}
}

// A CopyOut without its wait still makes the copy.
func TestOmitWaitOfCopyOut(t *testing.T) {
	for name, open := range map[string]func(testing.TB) device.Device{"cpu": openCPU, "sim": openSim} {
		t.Run(name, func(t *testing.T) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			copyOut := func(o *devicetest.Omission) error {
				dev := devicetest.Checked(t, o.Wrap(open(t)))
				host, err := dev.AllocHost(4)
				must(t, err)
				s, err := dev.NewStream()
				must(t, err)
				d, err := device.Upload(s, []uint32{0x04030201})
				must(t, err)
				err = s.CopyOut(ended, host, d.Ptr())
				must(t, s.Sync(t.Context()))
				if err == nil && !slices.Equal(host, []byte{1, 2, 3, 4}) {
					t.Errorf("copied %v", host)
				}
				must(t, errors.Join(s.Close(), d.Free(), dev.FreeHost(host)))
				return err
			}
			all := devicetest.Omit()
			if err := copyOut(all); !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: %v", err)
			}
			for site := range all.Seen() {
				if site.Method == "CopyOut" {
					must(t, copyOut(devicetest.Omit(site)))
				}
			}
		})
	}
}

// A device under an empty omission behaves like the device itself.
func TestOmitNothing(t *testing.T) {
	devicetest.Conformance(t, func(t testing.TB) device.Device {
		dev, err := cpu.Open(nil)
		must(t, err)
		return devicetest.Omit().Wrap(dev)
	})
	o := devicetest.Omit()
	if host, ok := o.Wrap(openCPU(t)).(device.Host); !ok {
		t.Error("a CPU is a host")
	} else {
		var n atomic.Int32
		host.Parallel(100, 7, func(lo, hi int) { n.Add(int32(hi - lo)) })
		s, err := host.NewStream()
		must(t, err)
		if n.Load() != 100 || s.Device() != host {
			t.Errorf("ran %d of 100; streams of %v", n.Load(), s.Device())
		}
		must(t, s.Close())
	}
	if _, ok := o.Wrap(openSim(t)).(device.Host); ok {
		t.Error("a GPU is no host")
	}
	if len(o.Seen()) != 0 {
		t.Errorf("seen without a call: %v", o.Seen())
	}
}

// gpuLike hides that a device is a Host, so that Checked fills memory by a stream.
type gpuLike struct{ device.Device }

func (g gpuLike) Properties() device.Properties { return device.Properties{Kind: device.CUDA} }

// Calls that Checked itself makes are not counted.
func TestOmitOwnAccount(t *testing.T) {
	o := devicetest.Omit()
	dev := devicetest.Checked(t, o.Wrap(gpuLike{openSim(t)}))
	d, err := device.Make[uint32](dev, 4)
	must(t, err)
	must(t, d.Free())
	if len(o.Seen()) != 0 {
		t.Errorf("seen: %v", o.Seen())
	}
}

func TestListCalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "room")
	must(t, os.Mkdir(dir, 0o777))
	write := func(name, src string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(src), 0o666)) }
	write("a.go", `package room

var first = shared.Sync(ctx)

func (t *table[K, V]) change(s *device.Stream) error {
	wg.Wait()
	Sync(ctx)
	return errors.Join(s.Wait(t.changed), s.Wait(t.Record(t.copied)),
		s.CopyOut(ctx,
			nil, 0), t.Wait)
}

func (list[T]) read() { func() { d.CopyTo(ctx, s, dst) }() }
`)
	write("a_test.go", "package room\n\nvar x = a.Wait(b)\n")
	write("b.go", "package room\n\nfunc b() { a.Record(b) }\n")
	write("c.cu", "a.Wait(b);")
	calls, err := devicetest.ListCalls(dir)
	must(t, err)
	var got []string
	for _, c := range calls {
		got = append(got, c.String())
	}
	want := []string{
		"room/a.go:3: Sync in : shared.Sync(ctx)",
		"room/a.go:8: Wait in (*table).change: s.Wait(t.changed)",
		"room/a.go:8: Record in (*table).change: t.Record(t.copied)",
		"room/a.go:8: Wait, number 2 in (*table).change: s.Wait(t.Record(t.copied))",
		"room/a.go:9: CopyOut in (*table).change: s.CopyOut(ctx, nil, 0)",
		"room/a.go:13: CopyOut in (list).read: d.CopyTo(ctx, s, dst)",
		"room/b.go:3: Record in b: a.Record(b)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	write("broken.go", "pack")
	if _, err := devicetest.ListCalls(dir); err == nil || !strings.Contains(err.Error(), "broken.go") {
		t.Errorf("a file that is not Go: %v", err)
	}
	if _, err := devicetest.ListCalls(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
