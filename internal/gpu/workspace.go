package gpu

import (
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// Workspace is memory that running calls of all structures on a device share. It exists while at
// least one structure is open on the device.
//
// A call acquires a scratch first, then a transfer, then memory for the transfer's ring. A call
// that holds ring memory waits for no other call, so every wait ends.
type Workspace struct {
	dev    device.Device
	users  int             // number of open queues; guarded by workspaces
	memory *staging.Memory // for the rings of transfers

	mu       sync.Mutex
	carriers []*Transfer // idle transfers

	loading sync.Mutex
	kernels *kernels // guarded by loading; nil until an engine needs them

	limit   int // maximum bytes of all scratches together
	scratch []*Scratch
	waiters staging.WaitQueue // calls that wait for a scratch
}

// workspaces holds the workspace and the limit of each device.
var workspaces = struct {
	sync.Mutex
	byDevice map[device.Device]*Workspace
	limits   map[device.Device]int
}{byDevice: map[device.Device]*Workspace{}, limits: map[device.Device]int{}}

// Limit sets how many bytes of page-locked memory all calls on a device may use together. The same
// number limits their device memory for resolving duplicates. 0 restores the default.
func Limit(dev device.Device, bytes int) {
	workspaces.Lock()
	defer workspaces.Unlock()
	if bytes > 0 {
		workspaces.limits[dev] = bytes
	} else {
		delete(workspaces.limits, dev)
	}
	if w := workspaces.byDevice[dev]; w != nil {
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

// openWorkspace returns the workspace of a device and counts one more queue. It creates the
// workspace for the first queue.
func openWorkspace(dev device.Device) *Workspace {
	workspaces.Lock()
	defer workspaces.Unlock()
	w := workspaces.byDevice[dev]
	if w == nil {
		w = &Workspace{dev: dev, memory: staging.NewMemory(dev, 0)}
		w.setLimit(workspaces.limits[dev])
		workspaces.byDevice[dev] = w
	}
	w.users++
	return w
}

// close removes one queue from the count, and frees the workspace after the last queue.
func (w *Workspace) close() (err error) {
	workspaces.Lock()
	defer workspaces.Unlock()
	if w.users--; w.users > 0 {
		return nil
	}
	delete(workspaces.byDevice, w.dev)
	for _, c := range w.carriers {
		err = errors.Join(err, c.free())
	}
	for _, x := range w.scratch {
		err = errors.Join(err, w.dev.Free(x.buf))
	}
	return errors.Join(err, w.memory.Close())
}

// Transfer is what one call needs to move a batch between host and device: a ring for the columns,
// and a counter.
type Transfer struct {
	Ring *staging.Ring
	Hits device.Slice[uint64]

	dev  device.Device
	host []byte // page-locked memory for the report that arrives with a batch
}

// reportBytes is the size of the report that arrives with a batch: two 64-bit counters and a word.
const reportBytes = 24

// AcquireTransfer returns a transfer that no other call uses. The caller must pass it to
// ReleaseTransfer. The pool never shrinks: a transfer has streams and events, but little memory.
func (w *Workspace) AcquireTransfer() (*Transfer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.carriers); n > 0 {
		c := w.carriers[n-1]
		w.carriers = w.carriers[:n-1]
		return c, nil
	}
	c := &Transfer{Ring: staging.New(w.dev, w.memory), dev: w.dev}
	var err error
	if c.host, err = w.dev.AllocHost(reportBytes); err != nil {
		return nil, err
	}
	if c.Hits, err = device.Make[uint64](w.dev, 1); err != nil {
		return nil, errors.Join(err, c.free())
	}
	return c, nil
}

// ReleaseTransfer returns a transfer to the pool.
func (w *Workspace) ReleaseTransfer(c *Transfer) {
	w.mu.Lock()
	w.carriers = append(w.carriers, c)
	w.mu.Unlock()
}

// WithTransfer acquires a transfer and calls run with it and with the work stream of its ring.
func (w *Workspace) WithTransfer(run func(c *Transfer, s *device.Stream) error) error {
	c, err := w.AcquireTransfer()
	if err != nil {
		return err
	}
	defer w.ReleaseTransfer(c)
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return run(c, s)
}

func (c *Transfer) free() error {
	return errors.Join(c.Ring.Close(), c.Hits.Free(), c.dev.FreeHost(c.host))
}
