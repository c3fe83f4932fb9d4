package stack

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/epoch"
)

// open opens the GPU that the environment selects, or a simulated one.
func open(t *testing.T) device.Device {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		return dev
	}
	simulated, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { simulated.Close() })
	return devicetest.Checked(t, simulated)
}

func newStack(t *testing.T, dev device.Device, opts Options) *Stack {
	x, err := New(t.Context(), dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func (x *Stack) mustRun(t *testing.T, l Load) {
	t.Helper()
	if err := x.Run(x.stream, l); err != nil {
		t.Fatal(err)
	}
}

func (x *Stack) check(t *testing.T) Report {
	t.Helper()
	r, err := x.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sizes returns the sizes of a test, large ones on a GPU.
func sizes(dev device.Device) (l Load, nodes, launches int) {
	if dev.Properties().Kind == device.CUDA {
		return Load{Blocks: 264, Threads: 256, Groups: 2, Walk: 4, Readers: 16}, 1 << 21, 20
	}
	return Load{Blocks: 3, Threads: 96, Groups: 12, Walk: 2, Readers: 1}, 1 << 12, 6
}

// TestMemoryIsFlat checks that the same launch and the next one reuse retired memory, with bags of
// any size. No Collect is needed for that, and the number of waiting nodes must not grow.
func TestMemoryIsFlat(t *testing.T) {
	dev := open(t)
	for _, large := range []bool{false, true} {
		load, nodes, launches := sizes(dev)
		perLaunch := load.Blocks * load.Threads * load.Groups
		x := newStack(t, dev, Options{Nodes: nodes, Values: launches * perLaunch, Slots: load.Blocks, Large: large})
		before := x.epochs.Bytes()
		most := 0
		for i := range launches {
			x.mustRun(t, load)
			r := x.check(t)
			most = max(most, int(r.Pending()))
			if r.Refused != 0 {
				t.Fatalf("launch %d: %d pushes without a node: %d in use, %d in limbo", i, r.Refused, r.Used, r.Pending())
			}
		}
		r := x.check(t)
		t.Logf("large bags %t: %d popped, %d freed, %d epochs, at most %d in limbo behind a launch", large, r.Popped, r.Freed, r.Advanced, most)
		if r.Freed == 0 || r.Advanced < uint64(launches) {
			t.Errorf("%d nodes freed in %d epochs", r.Freed, r.Advanced)
		}
		if most > perLaunch {
			t.Errorf("%d nodes in limbo: more than a launch retires", most)
		}
		if x.epochs.Bytes() != before {
			t.Errorf("%d bytes for reclamation, %d before", x.epochs.Bytes(), before)
		}
		if err := x.epochs.Collect(x.stream); err != nil {
			t.Fatal(err)
		}
		if r := x.check(t); r.Pending() != 0 || r.Freed != r.Retired {
			t.Errorf("%d in limbo behind a collection, %d freed of %d", r.Pending(), r.Freed, r.Retired)
		}
	}
}

// TestPins checks that a pin keeps nodes retired before its end, and that the pin before it then
// keeps them. When the last pin ends, in any order, all nodes must be freed.
func TestPins(t *testing.T) {
	dev := open(t)
	load := Load{Blocks: 2, Threads: 32, Groups: 8, Walk: 1}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		x := newStack(t, dev, Options{Nodes: 1 << 12, Values: 1 << 12, Slots: 4})
		x.mustRun(t, load)
		if err := x.epochs.Collect(x.stream); err != nil {
			t.Fatal(err)
		}
		freed := x.check(t).Freed
		var pins []*epoch.Pin
		for range 3 {
			p, err := x.epochs.Pin(x.stream)
			if err != nil {
				t.Fatal(err)
			}
			pins = append(pins, p)
			x.mustRun(t, load)
			if err := x.epochs.Collect(x.stream); err != nil {
				t.Fatal(err)
			}
			if r := x.check(t); r.Freed != freed || r.Held != r.Retired-freed {
				t.Fatalf("%d freed, %d before the pin; %d held", r.Freed, freed, r.Held)
			}
		}
		for i, p := range order {
			held := x.check(t).Held
			if err := pins[p].Release(x.stream); err != nil {
				t.Fatal(err)
			}
			r := x.check(t)
			oldest := p == 0 || p == 1 && order[0] == 0 || i == 2
			switch {
			case i == 2 && r.Held != 0:
				t.Errorf("order %v: %d held without a pin", order, r.Held)
			case oldest && r.Held >= held:
				t.Errorf("order %v, pin %d: %d held, %d before", order, p, r.Held, held)
			case !oldest && r.Held != held:
				t.Errorf("order %v, pin %d: %d held, %d before, though an older pin lasts", order, p, r.Held, held)
			}
			if err := pins[p].Release(x.stream); err != nil {
				t.Errorf("released twice: %v", err)
			}
		}
		if r := x.check(t); r.Freed != r.Retired {
			t.Errorf("%d freed of %d", r.Freed, r.Retired)
		}
	}
}

// TestAllocationFails checks that creating a reclaimer or a pin without memory fails, and that no
// memory leaks.
func TestAllocationFails(t *testing.T) {
	dev := devicetest.Checked(t, must(sim.Open(nil)))
	for after := range 4 {
		devicetest.FailAfter(dev, after)
		_, err := New(t.Context(), dev, Options{Nodes: 100, Values: 100})
		devicetest.ClearFailures(dev)
		if !errors.Is(err, device.ErrMemory) {
			t.Errorf("after %d allocations: %v", after, err)
		}
	}
	x := newStack(t, dev, Options{Nodes: 100, Values: 100})
	devicetest.FailAfter(dev, 0)
	_, err := x.epochs.Pin(x.stream)
	devicetest.ClearFailures(dev)
	if !errors.Is(err, device.ErrMemory) {
		t.Errorf("a pin without memory: %v", err)
	}
	if err := x.Run(x.stream, Load{Blocks: 10, Threads: 10, Groups: 2}); err == nil {
		t.Error("more values than there are")
	}
}

func must(dev *sim.Device, err error) *sim.Device {
	if err != nil {
		panic(err)
	}
	return dev
}
