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

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/internal/simulator"
)

// Scheduler names a way to choose the thread or copy that makes the next step.
type Scheduler string

// These are the schedulers.
const (
	// Fast runs warps in lockstep, one after another, with sequentially consistent memory. Results
	// do not depend on the seed.
	Fast Scheduler = "fast"
	// Random picks at random the lanes that make the next memory access.
	Random Scheduler = "random"
	// PCT assigns random priorities to threads and changes them at a few random points (Burckhardt
	// et al., ASPLOS 2010). By that paper it finds a bug that needs d ordered steps with
	// probability at least 1/(n*k^(d-1)), for n threads and k steps.
	PCT Scheduler = "pct"
)

// Options are the options of a simulated GPU. The zero value selects an H200 under [Fast].
type Options struct {
	// Seed determines all choices of the scheduler and of weak memory.
	Seed uint64
	// Arch is the compute capability that selects the targets of images. GPUs of this capability
	// must exist. Default 90.
	Arch int
	// Scheduler selects the scheduler. Default Fast.
	Scheduler Scheduler
	// Depth is PCT's number of ordered steps, which is 1 more than the number of priority changes.
	// At most 1024. Default 3.
	Depth int
	// Sequential makes memory sequentially consistent under Random and PCT. Otherwise loads may
	// return older values, as PTX's memory model allows.
	Sequential bool
	// Races makes a data race a fault. A data race is two unordered accesses to the same bytes. At
	// least one writes. At least one is weak, or has a scope that does not include the other. Races
	// requires weak memory.
	Races bool
	// Memory is the size of global memory in bytes. Default 1 GiB.
	Memory uint64
	// L2 is the size of the last cache in bytes that Properties reports. The simulator has no
	// cache. Default 50 MiB.
	L2 int
	// Budget is the number of warp instructions that a launch may execute. A launch that exceeds it
	// fails. Default 1<<32.
	Budget uint64
	// Domain, if not nil, observes stores and the events that order them.
	Domain Domain
	// Watch, if not nil, receives every access to global memory, in the order of the accesses.
	Watch func(Access)
	// Requests, if not nil, receives the requests of each warp instruction to global memory before
	// the instruction executes. A program can count sectors and lines from them.
	Requests func(Request)
	// Rewrite, if not nil, changes the PTX of an image before the image is loaded. Tests use it to
	// break a kernel and to check that other tests then fail.
	Rewrite func(file, ptx string) string
	// Trace, if not "", is a file to which every executed instruction is written; "-" is standard
	// error. Default: WEFT_SIM_TRACE in the environment.
	Trace string
}

const (
	maxThreads = 1024 // threads per block
	units      = 132  // multiprocessors of an H200
	maxDepth   = 1024
)

// architectures are the compute capabilities of GPUs since Volta.
var architectures = []int{70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121}

// maxGrid and maxBlock are the largest extents that a GPU accepts.
var (
	maxGrid  = device.Dim{X: 1<<31 - 1, Y: 1<<16 - 1, Z: 1<<16 - 1}
	maxBlock = device.Dim{X: 1024, Y: 1024, Z: 64}
)

// Device is a simulated GPU. Submitted work runs while the host waits for work.
type Device struct {
	opts  Options
	rng   *rand.Rand // chooses the next step; nil under Fast
	sched scheduler
	views *views // nil if memory is sequentially consistent

	mu       sync.Mutex
	heap     *heap
	host     map[*byte]int // size of each block that AllocHost returned
	pinned   map[*pin]bool // registered or mapped memory
	mapped   []*segment    // segments of mapped host memory
	modules  map[*device.Image]*loaded
	launches int
	clock    uint64
	// lengths holds the number of accesses in the last launch of each kernel, for PCT.
	lengths    map[*program]uint64
	freeBlocks map[shape]*[]*block // blocks of earlier launches, for reuse
	trace      *tracer
	journal    *journal // nil without a domain
	lost       error
	closed     bool

	streams     []*stream // by stream index; nil if no stream is open there
	lastWork    []uint32  // by stream index: seq of the last work
	lastAccess  []uint32  // by stream index: seq of the last work that accesses memory
	works       int       // number of works submitted so far
	queued      int       // number of works not done
	queuedBytes int       // bytes of host memory that the queued works hold
	heads       []*work   // cached result of ready; nil after a change
	copies      []*work   // asynchronous copies that the host may not have waited for

	// waited is the progress that the host has waited for. observed is the view that the host got
	// by waiting; see [stream.observed]. A new era starts when the host has waited for all works
	// that access memory. All earlier works are then known to all threads.
	waited   progress
	observed *view
	era      int
}

var _ device.Device = (*Device)(nil)

// Open makes a simulated GPU. With nil options it runs one schedule, under Fast, and finds no data
// races. Tests that look for races call [Schedule] with many seeds.
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
	if o.L2 == 0 {
		o.L2 = 50 << 20
	}
	if o.Budget == 0 {
		o.Budget = 1 << 32
	}
	if o.Trace == "" {
		o.Trace = os.Getenv("WEFT_SIM_TRACE")
	}
	if o.Scheduler != Fast && o.Scheduler != Random && o.Scheduler != PCT {
		return nil, fmt.Errorf("sim: %w: scheduler %q is not fast, random or pct",
			device.ErrInvalid, o.Scheduler)
	}
	if o.Depth < 1 || o.Depth > maxDepth {
		return nil, fmt.Errorf("sim: %w: depth %d is not in [1, %d]", device.ErrInvalid, o.Depth,
			maxDepth)
	}
	if !slices.Contains(architectures, o.Arch) {
		return nil, fmt.Errorf("sim: %w: unknown architecture sm_%d", device.ErrInvalid, o.Arch)
	}
	if o.Races && (o.Sequential || o.Scheduler == Fast) {
		return nil, fmt.Errorf("sim: %w: races are found in weak memory only, under random or pct", device.ErrInvalid)
	}
	d := &Device{opts: o, heap: newHeap(o.Memory), host: map[*byte]int{}, pinned: map[*pin]bool{}, modules: map[*device.Image]*loaded{}, lengths: map[*program]uint64{}, freeBlocks: map[shape]*[]*block{}}
	if o.Domain != nil {
		d.journal = &journal{Domain: o.Domain}
	}
	d.schedule()
	if o.Trace != "" {
		t, err := newTracer(o.Trace)
		if err != nil {
			return nil, fmt.Errorf("sim: trace: %w", err)
		}
		d.trace = t
	}
	return d, nil
}

// Parse reads options from the name of a simulated GPU. "sim" selects Fast, and "sim:42" selects
// Random with seed 42. "sim:pct:42" and "sim:fast:42" name the scheduler.
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
		return nil, fmt.Errorf("sim: %w: scheduler %q is not fast, random or pct",
			device.ErrInvalid, first)
	}
	n, err := strconv.ParseUint(seed, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("sim: %w: seed %q is not a number", device.ErrInvalid, seed)
	}
	o.Seed = n
	return o, nil
}

// init makes simulated GPUs available in device/auto.
func init() {
	simulator.Open = func(choice string) (device.Device, error) {
		opts, err := Parse(choice)
		if err != nil {
			return nil, err
		}
		dev, err := Open(opts)
		if err != nil {
			return nil, err // a nil interface, unlike a nil *Device
		}
		return dev, nil
	}
}

// lock locks the device, or returns an error if the device is closed or lost.
func (d *Device) lock() error {
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

// Properties returns the description of the simulated GPU.
func (d *Device) Properties() device.Properties {
	return device.Properties{Kind: device.Sim, Name: "simulated GPU", Units: units, Arch: d.opts.Arch, L2: d.opts.L2, Driver: "sim"}
}

// Memory implements [device.Device].
func (d *Device) Memory() (device.Memory, error) {
	if err := d.lock(); err != nil {
		return device.Memory{}, err
	}
	defer d.mu.Unlock()
	return device.Memory{Free: d.heap.limit - d.heap.used, Total: d.heap.limit}, nil
}

// Alloc implements [device.Device]. Reading the memory before it is written is a fault.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	if err := d.lock(); err != nil {
		return device.Buffer{}, err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return device.Buffer{}, fmt.Errorf("sim: %w: allocation of %d bytes", device.ErrInvalid, size)
	}
	s, ok := d.heap.alloc(size)
	if !ok {
		return device.Buffer{}, fmt.Errorf("sim: %w: %d bytes requested, %d free", device.ErrMemory,
			size, d.heap.limit-d.heap.used)
	}
	return device.Buffer{Ptr: device.Ptr(s.base), Size: size}, nil
}

// Free releases a buffer. Later accesses to the buffer are faults. A Free before the host has
// waited for the works that use the buffer is a fault, too.
func (d *Device) Free(b device.Buffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("sim: %w", device.ErrClosed)
	}
	s := d.heap.at(uint64(b.Ptr))
	if s == nil {
		return fmt.Errorf("sim: %w: nothing to free at 0x%x (freed twice?)", device.ErrInvalid, uint64(b.Ptr))
	}
	err := d.checkUnused(s, "freed")
	d.heap.free(s)
	return err
}

// checkUnused returns an error and marks the device as lost if the host has not waited for a work
// that uses segment s. operation names what the caller does to s.
func (d *Device) checkUnused(s *segment, operation string) error {
	w := d.unfinished(s.users)
	if w == nil || d.lost != nil {
		return nil
	}
	return d.markLost(&Fault{Reason: fmt.Sprintf("a %s at 0x%x is %s, but the host has not waited for all work that uses it", s.name, s.base, operation), Work: w.String()})
}

// markLost makes the device unusable and records cause, unless an earlier cause is recorded. It
// returns the recorded error.
func (d *Device) markLost(cause error) error {
	if d.lost != nil {
		return d.lost
	}
	if f, ok := cause.(*Fault); ok && f.Kernel == "" {
		f.Seed, f.Launch = d.opts.Seed, d.launches
	}
	d.lost = fmt.Errorf("sim: %w: %w", device.ErrLost, cause)
	if d.trace != nil {
		d.trace.note("%v", cause)
	}
	return d.lost
}

// Launches returns the number of kernels launched so far.
func (d *Device) Launches() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launches
}

// Sync waits for all works of all streams.
func (d *Device) Sync(ctx context.Context) error {
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.drainAll(ctx)
}

// drainAll waits for all works of all streams.
func (d *Device) drainAll(ctx context.Context) error {
	for i := 0; i < len(d.streams); i++ { // other goroutines may open streams meanwhile
		if s := d.streams[i]; s != nil {
			if err := d.drain(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close releases all memory. Queued works do not run.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	for s, idle := range d.freeBlocks {
		s.prog.keepRegisters(*idle)
	}
	d.heap, d.modules, d.lengths, d.freeBlocks = newHeap(0), nil, nil, nil
	d.streams, d.heads, d.copies = nil, nil, nil
	if d.trace != nil {
		return d.trace.close()
	}
	return nil
}

// Steps returns the number of warp instructions executed since Open.
func (d *Device) Steps() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

func extent(d device.Dim) [3]int {
	return [3]int{max(d.X, 1), max(d.Y, 1), max(d.Z, 1)}
}

// threadsOf returns the number of threads in a block of extent d, which is within maxBlock.
func threadsOf(d device.Dim) int {
	n := extent(d)
	return n[0] * n[1] * n[2]
}

// withinLimit reports whether extent d is valid and within limit.
func withinLimit(d, limit device.Dim) bool {
	return d.X >= 0 && d.Y >= 0 && d.Z >= 0 && d.X <= limit.X && d.Y <= limit.Y && d.Z <= limit.Z
}
