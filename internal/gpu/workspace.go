package gpu

import (
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// Workspace is what the structures on one device share: memory that calls work
// with while they run. It is there while a structure is open on the device.
//
// Calls take from it in the order scratch, carrier, memory of the carrier's ring;
// whoever has the last waits for nobody, so nobody waits for ever.
type Workspace struct {
	dev    device.Device
	users  int             // queues that are open; guarded as workspaces are
	memory *staging.Memory // of rings

	mu       sync.Mutex
	carriers []*Carrier // that are idle

	loading sync.Mutex
	kernels *kernels // guarded by loading; nil until an engine needs them

	limit   int // bytes of all scratches, at most
	scratch []*Scratch
	line    staging.Line // of calls that wait for a scratch
}

// workspaces are those of all devices.
var workspaces = struct {
	sync.Mutex
	of     map[device.Device]*Workspace
	limits map[device.Device]int
}{of: map[device.Device]*Workspace{}, limits: map[device.Device]int{}}

// Limit sets how much page-locked memory calls on a device may take up together,
// in bytes, and how much of the device's for resolving duplicates. 0 is the
// default again.
func Limit(dev device.Device, bytes int) {
	workspaces.Lock()
	defer workspaces.Unlock()
	if bytes > 0 {
		workspaces.limits[dev] = bytes
	} else {
		delete(workspaces.limits, dev)
	}
	if w := workspaces.of[dev]; w != nil {
		w.setLimit(bytes)
	}
}

func (w *Workspace) setLimit(bytes int) {
	if bytes <= 0 {
		bytes = staging.DefaultLimit
	}
	w.memory.SetLimit(bytes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = bytes
}

// openWorkspace finds the workspace of a device, or makes it, for one more queue.
func openWorkspace(dev device.Device) *Workspace {
	workspaces.Lock()
	defer workspaces.Unlock()
	w := workspaces.of[dev]
	if w == nil {
		w = &Workspace{dev: dev, memory: staging.NewMemory(dev, 0)}
		w.setLimit(workspaces.limits[dev])
		workspaces.of[dev] = w
	}
	w.users++
	return w
}

// close frees a workspace when the last queue has gone.
func (w *Workspace) close() (err error) {
	workspaces.Lock()
	defer workspaces.Unlock()
	if w.users--; w.users > 0 {
		return nil
	}
	delete(workspaces.of, w.dev)
	for _, c := range w.carriers {
		err = errors.Join(err, c.free())
	}
	for _, x := range w.scratch {
		err = errors.Join(err, w.dev.Free(x.buf))
	}
	return errors.Join(err, w.memory.Close())
}

// Carrier is what a call with host memory needs for itself while it runs: a
// ring for its columns, and a counter.
type Carrier struct {
	Ring *staging.Ring
	Hits device.Slice[uint64]

	dev  device.Device
	host []byte // page-locked, for what comes back with a batch
}

// reportBytes is the size of what comes back with a batch: two counters of 64
// bits, and a word.
const reportBytes = 24

// Carrier lends a carrier, until Give. As many are kept as were lent at once:
// streams and events, but no memory to speak of.
func (w *Workspace) Carrier() (*Carrier, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.carriers); n > 0 {
		c := w.carriers[n-1]
		w.carriers = w.carriers[:n-1]
		return c, nil
	}
	c := &Carrier{Ring: staging.New(w.dev, w.memory), dev: w.dev}
	var err error
	if c.host, err = w.dev.AllocHost(reportBytes); err != nil {
		return nil, err
	}
	if c.Hits, err = device.Make[uint64](w.dev, 1); err != nil {
		return nil, errors.Join(err, c.free())
	}
	return c, nil
}

// Give takes a carrier back.
func (w *Workspace) Give(c *Carrier) {
	w.mu.Lock()
	w.carriers = append(w.carriers, c)
	w.mu.Unlock()
}

// OnWork lends a carrier and the stream on which its ring works while run runs.
func (w *Workspace) OnWork(run func(c *Carrier, s *device.Stream) error) error {
	c, err := w.Carrier()
	if err != nil {
		return err
	}
	defer w.Give(c)
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return run(c, s)
}

func (c *Carrier) free() error {
	return errors.Join(c.Ring.Close(), c.Hits.Free(), c.dev.FreeHost(c.host))
}
