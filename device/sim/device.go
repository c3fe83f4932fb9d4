package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Scheduler names a way to order the steps of threads.
type Scheduler string

// The schedulers.
const (
	// Fast runs warps in lockstep one after another, with sequentially
	// consistent memory. Results do not depend on the seed.
	Fast Scheduler = "fast"
	// Random picks the lanes that make the next memory access at random.
	Random Scheduler = "random"
	// PCT gives threads random priorities and changes them at a few random
	// points (Burckhardt et al., ASPLOS 2010): it finds a bug that needs d
	// ordered steps with a probability that does not fall with the number of
	// all other steps.
	PCT Scheduler = "pct"
)

// Options of a simulated GPU. The zero value is an H200 under [Fast].
type Options struct {
	// Seed determines all choices of the scheduler and the memory.
	Seed uint64
	// Arch is the compute capability that images are chosen for, one of those
	// that GPUs have. Default 90.
	Arch int
	// Scheduler defaults to Fast.
	Scheduler Scheduler
	// Depth is PCT's number of ordered steps, 1 more than the changes of
	// priority, at most 1024. Default 3.
	Depth int
	// Sequential keeps memory sequentially consistent under Random and PCT.
	// By default loads may return older values where PTX's memory model lets
	// them.
	Sequential bool
	// Races makes a data race a fault: two accesses to the same bytes, one of
	// them a write, that nothing orders, and of which one is weak or of too
	// small a scope for the other. It needs weak memory.
	Races bool
	// Memory is the size of global memory in bytes. Default 1 GiB.
	Memory uint64
	// Budget is how many warp instructions one launch may execute before it
	// counts as one that never ends. Default 1<<32.
	Budget uint64
	// Domain, if not nil, observes stores and fences.
	Domain Domain
	// Watch, if not nil, is told of every access to global memory, in the
	// order in which they are made.
	Watch func(Access)
	// Rewrite, if not nil, changes the PTX of an image before it is loaded:
	// for tests that break a kernel to see whether it shows.
	Rewrite func(file, ptx string) string
	// Trace, if not "", is a file that every executed instruction is written
	// to; "-" is standard error. Default: the environment's WEFT_SIM_TRACE.
	Trace string
}

const (
	maxThreads = 1024 // per block
	units      = 132  // multiprocessors, as many as an H200 has
	maxDepth   = 1024
)

// architectures are the compute capabilities of GPUs since Volta.
var architectures = []int{70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121}

// Extents that a GPU takes.
var (
	maxGrid  = device.Dim{X: 1<<31 - 1, Y: 1<<16 - 1, Z: 1<<16 - 1}
	maxBlock = device.Dim{X: 1024, Y: 1024, Z: 64}
)

// Device is a simulated GPU. Work runs when it is submitted.
type Device struct {
	opts Options

	mu       sync.Mutex
	heap     *heap
	host     map[*byte]int // sizes of what AllocHost gave
	pinned   map[*pin]bool // what is registered
	modules  map[*device.Image]*loaded
	launches int
	clock    uint64
	last     map[*program]uint64 // accesses of a kernel's last launch, for PCT
	idle     map[shape][]*block  // blocks of earlier launches, to be used again
	trace    *tracer
	lost     error
	closed   bool
}

var _ device.Device = (*Device)(nil)

// Open makes a simulated GPU. opts may be nil.
func Open(opts *Options) (*Device, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Arch == 0 {
		o.Arch = 90
	}
	if o.Scheduler == "" {
		o.Scheduler = Fast
	}
	if o.Depth == 0 {
		o.Depth = 3
	}
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.Budget == 0 {
		o.Budget = 1 << 32
	}
	if o.Trace == "" {
		o.Trace = os.Getenv("WEFT_SIM_TRACE")
	}
	if o.Scheduler != Fast && o.Scheduler != Random && o.Scheduler != PCT {
		return nil, fmt.Errorf("sim: %w: scheduler %q is none of fast, random, pct", device.ErrInvalid, o.Scheduler)
	}
	if o.Depth < 1 || o.Depth > maxDepth {
		return nil, fmt.Errorf("sim: %w: depth %d is not 1 to %d", device.ErrInvalid, o.Depth, maxDepth)
	}
	if !slices.Contains(architectures, o.Arch) {
		return nil, fmt.Errorf("sim: %w: there is no sm_%d", device.ErrInvalid, o.Arch)
	}
	if o.Races && (o.Sequential || o.Scheduler == Fast) {
		return nil, fmt.Errorf("sim: %w: races are found in weak memory only, under random or pct", device.ErrInvalid)
	}
	d := &Device{opts: o, heap: newHeap(o.Memory), host: map[*byte]int{}, pinned: map[*pin]bool{}, modules: map[*device.Image]*loaded{}, last: map[*program]uint64{}, idle: map[shape][]*block{}}
	if o.Trace != "" {
		t, err := newTracer(o.Trace)
		if err != nil {
			return nil, fmt.Errorf("sim: trace: %w", err)
		}
		d.trace = t
	}
	return d, nil
}

// Parse reads the name of a simulated GPU as the command line writes it:
// "sim" is Fast; "sim:42" is Random with seed 42; "sim:pct:42" and
// "sim:fast:42" name the scheduler.
func Parse(name string) (*Options, error) {
	rest, ok := strings.CutPrefix(name, "sim")
	if !ok || rest != "" && rest[0] != ':' {
		return nil, fmt.Errorf("sim: %w: %q is not sim[:scheduler][:seed]", device.ErrInvalid, name)
	}
	o := &Options{}
	if rest == "" {
		return o, nil
	}
	first, second, two := strings.Cut(rest[1:], ":")
	seed := first
	o.Scheduler = Random
	if s := Scheduler(first); s == Fast || s == Random || s == PCT {
		o.Scheduler, seed = s, second
		if !two {
			return o, nil
		}
	} else if two {
		return nil, fmt.Errorf("sim: %w: scheduler %q is none of fast, random, pct", device.ErrInvalid, first)
	}
	n, err := strconv.ParseUint(seed, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("sim: %w: seed %q is not a number", device.ErrInvalid, seed)
	}
	o.Seed = n
	return o, nil
}

// use locks the device for a call, unless it is closed or lost.
func (d *Device) use() error {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return fmt.Errorf("sim: %w", device.ErrClosed)
	case d.lost != nil:
		d.mu.Unlock()
		return d.lost
	}
	return nil
}

// Properties describes the simulated GPU.
func (d *Device) Properties() device.Properties {
	return device.Properties{Kind: device.Sim, Name: "simulated GPU", Units: units, Arch: d.opts.Arch, L2: 50 << 20, Driver: "sim"}
}

// Memory reads free and total memory.
func (d *Device) Memory() (device.Memory, error) {
	if err := d.use(); err != nil {
		return device.Memory{}, err
	}
	defer d.mu.Unlock()
	return device.Memory{Free: d.heap.limit - d.heap.used, Total: d.heap.limit}, nil
}

// Alloc returns device memory. Reading it before it is written is a fault.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	if err := d.use(); err != nil {
		return device.Buffer{}, err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return device.Buffer{}, fmt.Errorf("sim: %w: allocation of %d bytes", device.ErrInvalid, size)
	}
	s, ok := d.heap.alloc(size)
	if !ok {
		return device.Buffer{}, fmt.Errorf("sim: %w: %d bytes asked for, %d free", device.ErrMemory, size, d.heap.limit-d.heap.used)
	}
	return device.Buffer{Ptr: device.Ptr(s.base), Size: size}, nil
}

// Free returns a buffer; later accesses to it are faults.
func (d *Device) Free(b device.Buffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("sim: %w", device.ErrClosed)
	}
	if !d.heap.free(uint64(b.Ptr)) {
		return fmt.Errorf("sim: %w: nothing to free at 0x%x (freed twice?)", device.ErrInvalid, uint64(b.Ptr))
	}
	return nil
}

// AllocHost returns host memory.
func (d *Device) AllocHost(size int) ([]byte, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return nil, fmt.Errorf("sim: %w: allocation of %d bytes", device.ErrInvalid, size)
	}
	b := hostMemory(size)
	d.host[&b[0]] = size
	return b, nil
}

// FreeHost drops what AllocHost gave.
func (d *Device) FreeHost(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(b) == 0 || d.host[&b[0]] != len(b) {
		return fmt.Errorf("sim: %w: no host memory of AllocHost (freed twice?)", device.ErrInvalid)
	}
	if err := d.apart("FreeHost", b); err != nil {
		return err
	}
	delete(d.host, &b[0])
	return nil
}

// A pin is host memory that is registered or mapped.
type pin struct{ memory []byte }

// Register remembers b: all host memory is alike.
func (d *Device) Register(b []byte) (func() error, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if len(b) == 0 {
		return nil, fmt.Errorf("sim: %w: no memory to register", device.ErrInvalid)
	}
	if err := d.apart("Register", b); err != nil {
		return nil, err
	}
	p := &pin{b}
	d.pinned[p] = true
	return func() error { // idempotent
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.pinned, p)
		return nil
	}, nil
}

// Launches is the number of kernels launched so far: each is an interleaving
// of its own.
func (d *Device) Launches() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launches
}

// Pinned knows what AllocHost gave and Register was told.
func (d *Device) Pinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for first, size := range d.host {
		if inside(b, unsafe.Slice(first, size)) {
			return true
		}
	}
	for p := range d.pinned {
		if inside(b, p.memory) {
			return true
		}
	}
	return false
}

// inside reports whether all of b is memory of outer.
func inside(b, outer []byte) bool {
	lo, base := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(outer)))
	return lo >= base && lo+uintptr(len(b)) <= base+uintptr(len(outer))
}

// NewStream opens a queue of work.
func (d *Device) NewStream() (*device.Stream, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return device.NewStream(d, &stream{dev: d}), nil
}

// NewEvent makes a marker.
func (d *Device) NewEvent() (*device.Event, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return device.NewEvent(&event{dev: d}), nil
}

// Sync has nothing to wait for.
func (d *Device) Sync(ctx context.Context) error {
	if err := d.use(); err != nil {
		return err
	}
	d.mu.Unlock()
	return ctx.Err()
}

// Close releases all memory.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.heap, d.modules, d.last = newHeap(0), nil, nil
	d.idle = nil
	if d.trace != nil {
		return d.trace.close()
	}
	return nil
}

// Steps is the number of warp instructions executed since Open.
func (d *Device) Steps() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

// launch runs a kernel to its end.
func (d *Device) launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	e, ok := k.(*entry)
	if !ok || e == nil || e.dev != d {
		return fmt.Errorf("sim: %w: no kernel of this device", device.ErrInvalid)
	}
	if err := e.module.usable(); err != nil {
		return err
	}
	if len(params) != e.prog.kernel.paramSize {
		return fmt.Errorf("sim: %w: kernel %s takes %d bytes of parameters, got %d", device.ErrInvalid, k.Name(), e.prog.kernel.paramSize, len(params))
	}
	limit := maxThreads
	if m := e.prog.kernel.maxBlock; m > 0 {
		limit = min(limit, m)
	}
	if !within(grid, maxGrid) || !within(block, maxBlock) || threadsOf(block) > limit {
		return fmt.Errorf("sim: %w: kernel %s with a grid of %v and blocks of %v: at most %v blocks of %v threads, %d in all",
			device.ErrInvalid, k.Name(), grid, block, maxGrid, maxBlock, limit)
	}
	l := &launch{prog: e.prog, grid: extent(grid), blockDim: extent(block), heap: d.heap, near: make([]*segment, e.prog.accesses)}
	l.params = newSegment("parameters", 0, len(params))
	l.params.private = true
	copy(l.params.data, params)
	l.params.mark(0, len(params), true)
	l.seed, l.number, l.start, l.budget = d.opts.Seed, d.launches, d.clock, d.opts.Budget
	l.trace, l.domain, l.watch = d.trace, d.opts.Domain, d.opts.Watch
	l.idle = d.idle[l.shape()]
	d.launches++
	l.policy = d.policy(l)
	if l.trace != nil {
		l.trace.launch(l)
	}
	l.policy.run(l)
	d.clock += l.steps
	d.idle[l.shape()] = l.idle
	return d.conclude(l)
}

// policy chooses the scheduler and what goes with it.
func (d *Device) policy(l *launch) scheduler {
	if d.opts.Scheduler == Fast {
		return fast{}
	}
	l.rng = rand.New(rand.NewPCG(d.opts.Seed, uint64(l.number)))
	if !d.opts.Sequential {
		l.views = newViews(l, d.opts.Races)
	}
	if d.opts.Scheduler == PCT {
		return newPCT(l, d.opts.Depth, d.last[l.prog])
	}
	return newRandom(l)
}

// conclude turns the end of a launch into the device's state.
func (d *Device) conclude(l *launch) error {
	if p, ok := l.policy.(*pct); ok {
		d.last[l.prog] = p.accesses
	}
	if l.views != nil {
		l.views.settle()
	}
	var cause error
	switch {
	case l.crash != nil:
		cause = l.crash
	case l.fault != nil:
		cause = l.fault
	default:
		return nil
	}
	d.lost = fmt.Errorf("sim: %w: %w", device.ErrLost, cause)
	if l.trace != nil {
		l.trace.note("%v", cause)
	}
	return d.lost
}

func extent(d device.Dim) [3]int {
	return [3]int{max(d.X, 1), max(d.Y, 1), max(d.Z, 1)}
}

// threadsOf is the number of threads of a block that is within maxBlock.
func threadsOf(d device.Dim) int {
	n := extent(d)
	return n[0] * n[1] * n[2]
}

// within reports whether an extent makes sense and keeps to a limit.
func within(d, limit device.Dim) bool {
	return d.X >= 0 && d.Y >= 0 && d.Z >= 0 && d.X <= limit.X && d.Y <= limit.Y && d.Z <= limit.Z
}
