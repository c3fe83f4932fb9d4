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
	// Slots is the maximum number of running blocks. Further blocks wait for those before them.
	// Default: the maximum of the device, 32 per multiprocessor. All slots are read before an epoch
	// ends, so kernels with few blocks and many groups per block should set it.
	Slots int
	// Nodes is the number of nodes, with numbers below it. MaxNodes is the maximum to which
	// [Reclaimer.Grow] may raise it. Default: Nodes.
	Nodes, MaxNodes int
	// Bag is the number of nodes per epoch that a block has in shared memory: the Size of its
	// EpochBags. Default 128.
	Bag int
	// Collect launches a kernel of the structure that calls epoch_collect for n stacks.
	Collect func(s *device.Stream, r Ref, stacks device.Ptr, n int) error
}

const (
	blocksPerUnit  = 32 // per multiprocessor
	defaultBag     = 128
	firstEpoch     = 4 // so that the third before it is a valid epoch
	noNode         = ^uint32(0)
	linkSize       = 4
	slotSize       = 8
	blockStateSize = 32 // per slot: what a block has left, beside nodes
	bagsPerSlot    = 4  // per slot
	stacks         = 32 // per bag and per pin
	controlSize    = int(unsafe.Sizeof(Control{}))
	bagStacks      = len(Control{}.Bags) * stacks
	bagsOffset     = device.Ptr(unsafe.Offsetof(Control{}.Bags))
)

// A Reclaimer is the memory by which blocks agree when a node is free. One goroutine at a time
// calls its methods. All but Ref are called while no launch that retires nodes is under way, or are
// ordered after it on its stream.
type Reclaimer struct {
	dev   device.Device
	cfg   Config
	words device.Buffer // control, slots, what blocks have left, and its nodes
	links device.Range

	pins  []*Pin                 // oldest first
	spare []device.Slice[uint32] // stacks of released pins, empty
}

// New makes a reclaimer. It submits the initialization of memory to a stream. It returns errors of
// allocation.
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
		if err != nil { // submitted work may use it
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

// Grow allocates memory for the links of that many nodes. Work may be under way.
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

// Ref returns the parameter of kernels: the twin of EpochRef. It is valid until the next Pin or
// Release.
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

// Collect frees retired nodes, or passes them to the newest pin, after all launches that retire.
// The bags are empty then, except for spare nodes of blocks.
func (r *Reclaimer) Collect(s *device.Stream) error {
	return r.cfg.Collect(s, r.Ref(), r.words.Ptr+bagsOffset, bagStacks)
}

// Counters count nodes and epochs. They are exact while no launch is under way.
type Counters struct {
	Epoch    uint64 // begins at 4
	Advanced uint64 // epochs that have ended
	Retired  uint64 // nodes, since the beginning
	Freed    uint64 // retired nodes that were freed
	Held     uint64 // retired nodes that pins keep
}

// Pending returns the number of nodes that wait for the end of epochs.
func (c Counters) Pending() uint64 { return c.Retired - c.Freed - c.Held }

// Bytes returns the size of the memory for reclamation itself.
func (r *Reclaimer) Bytes() int {
	return r.words.Size + r.links.Mapped() + (len(r.pins)+len(r.spare))*stacks*linkSize
}

// Counters reads the counters after the work submitted to a stream.
func (r *Reclaimer) ReadCounters(ctx context.Context, s *device.Stream) (Counters, error) {
	var c Control
	head := unsafe.Slice((*byte)(unsafe.Pointer(&c)), bagsOffset)
	err := s.CopyOut(ctx, head, r.words.Ptr)
	return Counters{Epoch: c.Epoch, Advanced: c.Advanced, Retired: c.Retired, Freed: c.Freed, Held: c.Held}, err
}

// Close frees the memory. Launches that use it have completed. Pins that have not ended become
// invalid.
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

// A Pin keeps retired nodes until it is released.
type Pin struct {
	r      *Reclaimer
	stacks device.Slice[uint32] // nodes that were retired while this was the newest pin
}

// Pin makes a pin after the work submitted to the stream. Launches after that, with a new Ref, free
// no node anymore.
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

// Release ends a pin. The pin before it keeps what it kept, or that is freed. If the launch fails,
// the pin remains.
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
