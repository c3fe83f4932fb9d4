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

// Config says what a [Reclaimer] is for.
type Config struct {
	// Slots is how many blocks can be under way at a time; more wait for those before them. Default: as
	// many as the device can have, 32 a multiprocessor. All slots are looked at before an epoch ends, so
	// kernels that have few blocks of many groups each should say how many.
	Slots int
	// Nodes is the number of nodes, whose numbers are below it; MaxNodes is how many [Reclaimer.Grow] may make it.
	// Default: Nodes.
	Nodes, MaxNodes int
	// Bag is how many nodes of an epoch a block has in shared memory: the Size of its EpochBags. Default 128.
	Bag int
	// Collect launches a kernel of the structure that calls epoch_collect for so many stacks.
	Collect func(s *device.Stream, r Ref, stacks device.Ptr, n int) error
}

const (
	blocksPerUnit = 32 // of a multiprocessor
	defaultBag    = 128
	firstEpoch    = 4 // so that the third before it is one
	noNode        = ^uint32(0)
	linkSize      = 4
	slotSize      = 8
	leftSize      = 32 // of a slot: what a block has left, beside nodes
	leftBags      = 4  // of a slot
	stacks        = 32 // of a bag, and of a pin
	controlSize   = int(unsafe.Sizeof(Control{}))
	bagStacks     = len(Control{}.Bags) * stacks
	bagsOffset    = device.Ptr(unsafe.Offsetof(Control{}.Bags))
)

// A Reclaimer is the memory by which blocks agree when a node is free. Its methods are called by one goroutine
// at a time; all but Ref where no launch is under way that retires nodes, or behind it on its stream.
type Reclaimer struct {
	dev   device.Device
	cfg   Config
	words device.Buffer // control, slots, what blocks have left, nodes of those
	links device.Range

	pins  []*Pin                 // oldest first
	spare []device.Slice[uint32] // stacks of pins that have ended, empty
}

// New makes a reclaimer. What it does to memory it submits to a stream. Errors: those of memory.
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
		if err != nil { // what has been submitted may use it
			err = errors.Join(err, s.Sync(context.Background()), r.Close())
		}
	}()
	if r.words, err = dev.Alloc(controlSize + cfg.Slots*(slotSize+leftSize+leftBags*cfg.Bag*linkSize)); err != nil {
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
	if err := s.Fill(r.announced(), 0, cfg.Slots*(slotSize+leftSize)/4); err != nil {
		return nil, err
	}
	return r, nil
}

// Grow takes memory for the links of so many nodes. Work under way need not have ended.
func (r *Reclaimer) Grow(nodes int) error {
	if nodes*linkSize <= r.links.Mapped() {
		return nil
	}
	if err := r.links.Resize(nodes * linkSize); err != nil {
		return fmt.Errorf("epoch: links of %d nodes: %w", nodes, err)
	}
	return nil
}

func (r *Reclaimer) announced() device.Ptr { return r.words.Ptr + device.Ptr(controlSize) }
func (r *Reclaimer) left() device.Ptr      { return r.announced() + device.Ptr(r.cfg.Slots*slotSize) }

// Ref is what a kernel takes: the twin of EpochRef. It holds until the next Pin or Release.
func (r *Reclaimer) Ref() Ref {
	ref := Ref{
		Control: r.words.Ptr, Announced: r.announced(), Links: r.links.Ptr(), Left: r.left(),
		Slots: uint32(r.cfg.Slots), Size: uint32(r.cfg.Bag),
	}
	if n := len(r.pins); n > 0 {
		ref.Pin = r.pins[n-1].stacks.Ptr()
	}
	return ref
}

// Collect frees what has been retired, or gives it to the newest pin, behind all launches that retire: nothing is
// left in bags then, but for what blocks have to spare.
func (r *Reclaimer) Collect(s *device.Stream) error {
	return r.cfg.Collect(s, r.Ref(), r.words.Ptr+bagsOffset, bagStacks)
}

// Counters tell what has become of nodes. They are exact where no launch is under way.
type Counters struct {
	Epoch    uint64 // begins at 4
	Advanced uint64 // epochs that have ended
	Retired  uint64 // nodes, since the beginning
	Freed    uint64 // of them
	Held     uint64 // of them, kept by pins
}

// Limbo is the number of nodes that wait for the end of epochs.
func (c Counters) Limbo() uint64 { return c.Retired - c.Freed - c.Held }

// Bytes is the memory that is taken for reclamation itself.
func (r *Reclaimer) Bytes() int {
	return r.words.Size + r.links.Mapped() + (len(r.pins)+len(r.spare))*stacks*linkSize
}

// Counters reads the counters behind what has been submitted to a stream.
func (r *Reclaimer) Counters(ctx context.Context, s *device.Stream) (Counters, error) {
	var c Control
	head := unsafe.Slice((*byte)(unsafe.Pointer(&c)), bagsOffset)
	err := s.CopyOut(ctx, head, r.words.Ptr)
	return Counters{Epoch: c.Epoch, Advanced: c.Advanced, Retired: c.Retired, Freed: c.Freed, Held: c.Held}, err
}

// Close frees the memory. Launches that use it have completed. Pins that have not ended are nothing any more.
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

// A Pin keeps what is retired while it lasts.
type Pin struct {
	r      *Reclaimer
	stacks device.Slice[uint32] // nodes that were retired while this was the newest pin
}

// Pin makes one, behind what has been submitted to the stream. Launches behind that, which take a Ref anew, free no node any more.
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

// Release ends a pin: what it kept is kept by the one before it, or freed. If that can't be launched, the pin lasts.
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
