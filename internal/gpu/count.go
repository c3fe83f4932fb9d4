package gpu

import "github.com/weftgo/weft/device"

// Adder adds numbers to counters that callers have in device memory. Other work may add to the same
// counters concurrently.
type Adder struct{ kernel device.Kernel }

// LoadAdder loads the adder's kernel onto a device. A [Workspace] has its own adder.
func LoadAdder(dev device.Device) (a Adder, err error) {
	err = Load(dev, &gpuImage, []Entry{a.entry()})
	return a, err
}

func (a *Adder) entry() Entry { return Entry{Name: "add", To: &a.kernel} }

// Add submits adding n to the counter at a device address.
func (a Adder) Add(s *device.Stream, to device.Ptr, n uint64) error {
	return a.launch(s, addParams{to: to, n: n})
}

// AddFrom submits adding a number in device memory to a counter. The arguments are the addresses of
// both.
func (a Adder) AddFrom(s *device.Stream, to, from device.Ptr) error {
	return a.launch(s, addParams{to: to, counters: from})
}

func (a Adder) launch(s *device.Stream, p addParams) error {
	return device.Launch(s, a.kernel, Grid(1), Block, &p)
}

// AddCount submits adding n to a caller's counter. It does nothing if to or n is 0.
func (w *Workspace) AddCount(s *device.Stream, to device.Ptr, n uint64) error {
	if to == 0 || n == 0 {
		return nil
	}
	k, err := w.loadKernels()
	if err != nil {
		return err
	}
	return k.add.Add(s, to, n)
}
