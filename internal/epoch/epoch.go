package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../cmd/weftgen -target 80,90+ptx83 -export -struct weft::EpochControl -struct weft::EpochRef -type weft::EpochControl=Control -type weft::EpochRef=Ref ../../kernels/include/weft/epoch.cuh

// Config configures a [Reclaimer].
type Config struct {
	// Slots is the maximum number of running blocks. Further blocks wait for a slot. The default is
	// the maximum of the device, 32 per multiprocessor. A block reads all slots before it ends an
	// epoch, so kernels with few blocks and many groups per block should set Slots.
	Slots int
	// Nodes is the number of nodes; all node numbers are less than Nodes. MaxNodes is the maximum
	// number of nodes after [Reclaimer.Grow]. The default of MaxNodes is Nodes.
	Nodes, MaxNodes int
	// Bag is the number of nodes per epoch that a block keeps in shared memory: the Size of its
	// EpochBags. The default is 128.
	Bag int
	// Collect launches a kernel of the structure that calls epoch_collect for n stacks.
	Collect func(s *device.Stream, r Ref, stacks device.Ptr, n int) error
}

const (
	blocksPerUnit  = 32 // default slots per multiprocessor
	defaultBag     = 128
	firstEpoch     = 4 // large enough that the epoch three earlier is not zero
	noNode         = ^uint32(0)
	linkSize       = 4
	slotSize       = 8
	blockStateSize = 32 // bytes per slot for the state that a block leaves, except for nodes
	bagsPerSlot    = 4  // number of bags per slot
	stacks         = 32 // number of stacks per bag and per pin
	controlSize    = int(unsafe.Sizeof(Control{}))
	bagStacks      = len(Control{}.Bags) * stacks
	bagsOffset     = device.Ptr(unsafe.Offsetof(Control{}.Bags))
)

// Reclaimer manages the device memory in which blocks announce epochs and retire nodes. Only one
// goroutine at a time may call its methods. Call methods other than Ref only while no launch
// retires nodes, or on the stream of such launches.
type Reclaimer struct {
	dev   device.Device
	cfg   Config
	words device.Buffer // control, slots, states of blocks, and the bags that ended blocks left
	links device.Range

	pins  []*Pin                 // oldest first
	spare []device.Slice[uint32] // empty stacks of released pins
}

// New creates a reclaimer. It allocates memory and submits the initialization of the memory to
// stream s.
func New(s *device.Stream, cfg Config) (_ *Reclaimer, err error) {
	dev := s.Device()
	if cfg.Slots <= 0 {
		cfg.Slots = max(1, dev.Properties().Units) * blocksPerUnit
	}
	if cfg.Bag <= 0 {
		cfg.Bag = defaultBag
	}
	cfg.MaxNodes = max(cfg.MaxNodes, cfg.Nodes, 1)
	r := &Reclaimer{dev: dev, cfg: cfg}
	defer func() {
		if err != nil { // submitted work may use the memory
			err = errors.Join(err, s.Sync(context.Background()), r.Close())
		}
	}()
	if r.words, err = dev.Alloc(controlSize + cfg.Slots*(slotSize+blockStateSize+bagsPerSlot*cfg.Bag*linkSize)); err != nil {
		return nil, fmt.Errorf("epoch: %d slots: %w", cfg.Slots, err)
	}
	if r.links, err = dev.Reserve(cfg.MaxNodes * linkSize); err != nil {
		return nil, fmt.Errorf("epoch: links of %d nodes: %w", cfg.MaxNodes, err)
	}
	if err := r.Grow(cfg.Nodes); err != nil {
		return nil, err
	}
	first := Control{Epoch: firstEpoch}
	for i := range first.Bags {
		for k := range first.Bags[i] {
			first.Bags[i][k] = noNode
		}
	}
	if err := s.CopyIn(r.words.Ptr, unsafe.Slice((*byte)(unsafe.Pointer(&first)), controlSize)); err != nil {
		return nil, err
	}
	if err := s.Fill(r.announced(), 0, cfg.Slots*(slotSize+blockStateSize)/4); err != nil {
		return nil, err
	}
	return r, nil
}

// Grow allocates memory for the links, so that node numbers may reach the given number of nodes.
// Launches may run meanwhile.
func (r *Reclaimer) Grow(nodes int) error {
	if nodes*linkSize <= r.links.Mapped() {
		return nil
	}
	if err := r.links.Resize(nodes * linkSize); err != nil {
		return fmt.Errorf("epoch: links of %d nodes: %w", nodes, err)
	}
	return nil
}

func (r *Reclaimer) announced() device.Ptr  { return r.words.Ptr + device.Ptr(controlSize) }
func (r *Reclaimer) blockState() device.Ptr { return r.announced() + device.Ptr(r.cfg.Slots*slotSize) }

// Ref returns the parameter that gives kernels access to the reclaimer. In CUDA it is the struct
// EpochRef. It is valid until the next Pin or Release.
func (r *Reclaimer) Ref() Ref {
	ref := Ref{
		Control: r.words.Ptr, Announced: r.announced(), Links: r.links.Ptr(), Left: r.blockState(),
		Slots: uint32(r.cfg.Slots), Size: uint32(r.cfg.Bag),
	}
	if n := len(r.pins); n > 0 {
		ref.Pin = r.pins[n-1].stacks.Ptr()
	}
	return ref
}

// Collect submits a launch that frees the retired nodes, or moves them to the newest pin if pins
// exist. Submit it after all launches that retire nodes. It empties the bags, except for free nodes
// that blocks keep.
func (r *Reclaimer) Collect(s *device.Stream) error {
	return r.cfg.Collect(s, r.Ref(), r.words.Ptr+bagsOffset, bagStacks)
}

// Counters contains counts of nodes and epochs. The counts are exact if no launch is running.
type Counters struct {
	Epoch    uint64 // current epoch; begins at 4
	Advanced uint64 // number of epochs that have ended
	Retired  uint64 // nodes retired since the beginning
	Freed    uint64 // retired nodes that were freed
	Held     uint64 // retired nodes that pins keep
}

// Pending returns the number of retired nodes that wait for the end of epochs.
func (c Counters) Pending() uint64 { return c.Retired - c.Freed - c.Held }

// Bytes returns the size of the memory that the reclaimer itself uses.
func (r *Reclaimer) Bytes() int {
	return r.words.Size + r.links.Mapped() + (len(r.pins)+len(r.spare))*stacks*linkSize
}

// ReadCounters waits for the work submitted to a stream and then reads the counters.
func (r *Reclaimer) ReadCounters(ctx context.Context, s *device.Stream) (Counters, error) {
	var c Control
	head := unsafe.Slice((*byte)(unsafe.Pointer(&c)), bagsOffset)
	err := s.CopyOut(ctx, head, r.words.Ptr)
	return Counters{Epoch: c.Epoch, Advanced: c.Advanced, Retired: c.Retired, Freed: c.Freed, Held: c.Held}, err
}

// Close frees the memory. All launches that use it must have completed. Pins that have not ended
// become invalid.
func (r *Reclaimer) Close() (err error) {
	if r.words.Size > 0 {
		err = r.dev.Free(r.words)
		r.words = device.Buffer{}
	}
	if r.links != nil {
		err = errors.Join(err, r.links.Free())
	}
	for _, p := range r.pins {
		err = errors.Join(err, p.stacks.Free())
	}
	for i := range r.spare {
		err = errors.Join(err, r.spare[i].Free())
	}
	r.pins, r.spare = nil, nil
	return err
}

// Pin keeps nodes that are retired after its creation, so that they stay readable until it is
// released.
type Pin struct {
	r      *Reclaimer
	stacks device.Slice[uint32] // nodes retired while this was the newest pin
}

// Pin creates a pin that begins after the work submitted to the stream. Later launches must use a
// new Ref. Nodes that they retire stay readable until the pin is released.
func (r *Reclaimer) Pin(s *device.Stream) (*Pin, error) {
	p := &Pin{r: r}
	if n := len(r.spare); n > 0 {
		p.stacks, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		var err error
		if p.stacks, err = device.Make[uint32](r.dev, stacks); err != nil {
			return nil, fmt.Errorf("epoch: a pin: %w", err)
		}
	}
	if err := s.Fill(p.stacks.Ptr(), noNode, stacks); err != nil {
		return nil, errors.Join(err, p.stacks.Free())
	}
	r.pins = append(r.pins, p)
	return p, nil
}

// Release ends a pin. The nodes that it keeps go to the next older pin, or are freed if no older
// pin exists. If Release returns an error, the pin remains.
func (p *Pin) Release(s *device.Stream) error {
	r := p.r
	i := slices.Index(r.pins, p)
	if i < 0 {
		return nil
	}
	ref := r.Ref()
	ref.Pin = 0
	if i > 0 {
		ref.Pin = r.pins[i-1].stacks.Ptr()
	}
	if err := r.cfg.Collect(s, ref, p.stacks.Ptr(), stacks); err != nil {
		return err
	}
	r.pins = slices.Delete(r.pins, i, i+1)
	r.spare = append(r.spare, p.stacks)
	return nil
}
