// Package touched lists the ends of edges without duplicates. If the edges have been inserted in a
// graph or deleted, the list contains all vertices with changed rows.
//
// On a GPU each vertex has a bit. One kernel marks the ends of all edges and records the largest
// end. With many edges and few vertices, each thread block first marks a range of vertices in
// shared memory, which takes five times as many marks per second as the L2 cache. Another kernel
// reads the bits up to the largest end, tile by tile. It counts the vertices before each tile by
// decoupled look-back (weft/lookback.cuh), writes the vertices, and clears their bits for the next
// list. So a list reads each edge and each bit once and sorts nothing. For up to a few hundred
// million vertices the bits fit into the L2 cache.
package touched

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 touched.cu

// Constants compiled into the kernels.
const (
	tileWords    = 1024
	tileVertices = 32 * tileWords

	gatherThreads = 1024
	ownWords      = 12288
	ownVertices   = 32 * ownWords
)

// A batch of at least leastGathered edges is marked in shared memory if the vertices form at most
// mostRanges ranges. The kernel reads all edges once per range.
const (
	leastGathered = 1 << 18
	mostRanges    = 6
)

// Edges is a list of edges in device memory, in columns of the same length. Done selects the edges
// for which it is true. If Done is empty, all edges are selected.
type Edges struct {
	From, To device.Slice[uint32]
	Done     device.Slice[bool]
	Vertices int // limit that all listed ends are less than; 0 means Lister.Most
}

// Lister lists the ends of edges on one device. Calls of List run one after the other on the
// device. A Lister allocates memory when List needs it and keeps it until Close. It is safe for
// concurrent use.
type Lister struct {
	Dev  device.Device
	Most int // maximum of Edges.Vertices

	mu                 sync.Mutex
	mark, gather, list device.Kernel
	// minimum number of edges for kernel gather; 0 for leastGathered
	gathered int
	used     *device.Event // recorded after the last List; nil before the first
	bits     device.Buffer
	state    device.Buffer // state that the kernels mark and list share
	spoilt   bool          // whether bits may be set in bits
	closed   bool
}

// List submits work to s that writes the ends of e to the slice ends and their number to count[0].
// If ends is too short, the work writes the first ends only, but still the full number.
func (l *Lister) List(s *device.Stream, e Edges, ends device.Slice[uint32], count device.Slice[uint64]) error {
	if err := l.check(s, e, ends, count); err != nil {
		return err
	}
	if e.Vertices == 0 {
		e.Vertices = l.Most
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return op.ErrClosed
	}
	if _, ok := l.Dev.(device.Host); ok {
		return write(s, e, ends, count)
	}
	return l.submit(s, e, ends, count)
}

// check returns an error if the arguments of List are invalid. The caller has already checked the
// columns of e.
func (l *Lister) check(s *device.Stream, e Edges, ends device.Slice[uint32], count device.Slice[uint64]) error {
	switch {
	case e.Vertices < 0 || e.Vertices > l.Most:
		return fmt.Errorf("%w: %d vertices, want 0 to %d, which is MaxVertices", device.ErrInvalid, e.Vertices, l.Most)
	case count.Len() == 0:
		return fmt.Errorf("%w: want a slice of one element for the count", device.ErrInvalid)
	case count.Device() != l.Dev || ends.Len() > 0 && ends.Device() != l.Dev:
		return fmt.Errorf("%w: the output is on another device than the graph", device.ErrInvalid)
	case ends.Len() > 0 && count.Ptr() < ends.Ptr()+device.Ptr(4*ends.Len()) && ends.Ptr() < count.Ptr()+8:
		return fmt.Errorf("%w: the count is among the vertices that are written", device.ErrInvalid)
	}
	return (&batch.Batch{}).CheckDevice(l.Dev, s)
}

// write implements List on a host device.
func write(s *device.Stream, e Edges, ends device.Slice[uint32], count device.Slice[uint64]) error {
	if err := cpu.SyncStream(s); err != nil {
		return err
	}
	all := Ends(e.From.Host(), e.To.Host(), e.Done.Host(), uint64(e.Vertices))
	copy(ends.Host(), all)
	count.Host()[0] = uint64(len(all))
	return nil
}

// submit implements List on a GPU. Its kernels wait for the previous List, even on a different
// stream.
func (l *Lister) submit(s *device.Stream, e Edges, ends device.Slice[uint32], count device.Slice[uint64]) (err error) {
	if err := l.open(); err != nil {
		return err
	}
	tiles := (e.Vertices + tileVertices - 1) / tileVertices
	if err := l.room(tiles); err != nil {
		return err
	}
	if err := s.Wait(l.used); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Record(l.used)) }()
	if l.spoilt {
		if err := s.Fill(l.bits.Ptr, 0, l.bits.Size/4); err != nil {
			return err
		}
	}
	l.spoilt = true // until both kernels are submitted
	if err := s.Fill(l.state.Ptr, 0, stateBytes(tiles)/4); err != nil {
		return err
	}
	m := markParams{
		from: e.From.Ptr(), to: e.To.Ptr(), done: e.Done.Ptr(), bits: l.bits.Ptr, end: l.state.Ptr,
		n: uint64(e.From.Len()), vertices: uint32(e.Vertices),
	}
	if err := l.marks(s, &m); err != nil {
		return err
	}
	p := listParams{
		bits: l.bits.Ptr, end: m.end, next: l.state.Ptr + 4, status: l.state.Ptr + statusAt,
		out: ends.Ptr(), count: count.Ptr(), room: uint64(ends.Len()),
	}
	err = device.Launch(s, l.list, gpu.Wave(l.Dev, tiles*gpu.BlockThreads), gpu.Block, &p)
	l.spoilt = err != nil
	return err
}

// marks submits the kernel that marks ends. It chooses between the kernels mark and gather.
func (l *Lister) marks(s *device.Stream, m *markParams) error {
	least := l.gathered
	if least == 0 {
		least = leastGathered
	}
	ranges := (int(m.vertices) + ownVertices - 1) / ownVertices
	if int(m.n) < least || ranges > mostRanges {
		return device.Launch(s, l.mark, gpu.Wave(l.Dev, int(m.n)), gpu.Block, m)
	}
	m.ranges = uint32(ranges)
	// Two blocks fill a multiprocessor. All ranges have the same number of blocks.
	each := max(1, min(2*l.Dev.Properties().Units/ranges, (int(m.n)+gatherThreads-1)/gatherThreads))
	return device.Launch(s, l.gather, device.Dim{X: each * ranges}, device.Dim{X: gatherThreads}, m)
}

// statusAt is the offset of the status words of the tiles in the state. The state begins with two
// other words: the limit of the marked ends, and the number of the next tile.
const statusAt = 8

func stateBytes(tiles int) int { return statusAt + 8*tiles }

// open loads the kernels on first use.
func (l *Lister) open() error {
	if l.used != nil {
		return nil
	}
	err := gpu.Load(l.Dev, &touchedImage, []gpu.Entry{{Name: "mark", To: &l.mark}, {Name: "gather", To: &l.gather}, {Name: "list", To: &l.list}})
	if err == nil {
		l.used, err = l.Dev.NewEvent()
	}
	return err
}

// room ensures that the memory suffices for the given number of tiles. Before it replaces the
// memory, it waits for the last List.
func (l *Lister) room(tiles int) (err error) {
	if l.bits.Size >= 4*tileWords*tiles {
		return nil
	}
	if err := l.free(); err != nil {
		return err
	}
	if l.state, err = l.Dev.Alloc(stateBytes(tiles)); err != nil {
		return err
	}
	if l.bits, err = l.Dev.Alloc(4 * tileWords * tiles); err != nil {
		return fmt.Errorf("a bit for each of %d vertices: %w", tiles*tileVertices, err)
	}
	l.spoilt = true
	return nil
}

func (l *Lister) free() error {
	err := l.used.Sync(context.Background())
	for _, b := range []*device.Buffer{&l.bits, &l.state} {
		if b.Size > 0 {
			err = errors.Join(err, l.Dev.Free(*b))
		}
		*b = device.Buffer{}
	}
	return err
}

// Bytes returns the size of the device memory.
func (l *Lister) Bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bits.Size + l.state.Size
}

// Close waits for the last List and frees the memory. A second Close does nothing.
func (l *Lister) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.used == nil {
		return nil
	}
	err := errors.Join(l.free(), l.used.Close())
	l.used = nil
	return err
}
