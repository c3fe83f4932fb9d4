package gpu

import "github.com/weftgo/weft/device"

// Adder adds to counters of callers. Other work may add to the same counters.
type Adder struct{ kernel device.Kernel }

// LoadAdder returns the adder of a device. A [Workspace] has one.
func LoadAdder(dev device.Device) (a Adder, err error) {
	err = Load(dev, &gpuImage, []Entry{a.entry()})
	return a, err
}

func (a *Adder) entry() Entry { return Entry{Name: "add", To: &a.kernel} }

// Add submits adding n.
func (a Adder) Add(s *device.Stream, to device.Ptr, n uint64) error {
	return a.launch(s, addParams{to: to, n: n})
}

// AddFrom submits adding the number at address from.
func (a Adder) AddFrom(s *device.Stream, to, from device.Ptr) error {
	return a.launch(s, addParams{to: to, counters: from})
}

func (a Adder) launch(s *device.Stream, p addParams) error {
	return device.Launch(s, a.kernel, Grid(1), Block, &p)
}

// AddCount submits adding n to a counter of a caller, if given.
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
