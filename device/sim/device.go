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

// Scheduler names a way to order the steps of threads.
type Scheduler string

// The schedulers.
const (
	// Fast runs warps in lockstep, one after another, with sequentially consistent memory. Results
	// do not depend on the seed.
	Fast Scheduler = "fast"
	// Random picks the lanes that make the next memory access at random.
	Random Scheduler = "random"
	// PCT gives threads random priorities and changes them at a few random points (Burckhardt et
	// al., ASPLOS 2010). It finds a bug that needs d ordered steps with a probability that does not
	// fall with the number of all other steps.
	PCT Scheduler = "pct"
)

// Options of a simulated GPU. The zero value is an H200 under [Fast].
type Options struct {
	// Seed determines all choices of the scheduler and the memory.
	Seed uint64
	// Arch is the compute capability that selects the target of images, one that GPUs have. Default
	// 90.
	Arch int
	// Scheduler defaults to Fast.
	Scheduler Scheduler
	// Depth is PCT's number of ordered steps, 1 more than the number of priority changes. At most
	// 1024. Default 3.
	Depth int
	// Sequential keeps memory sequentially consistent under Random and PCT. By default loads may
	// return older values if PTX's memory model allows them.
	Sequential bool
	// Races makes a data race a fault: two unordered accesses to the same bytes, one of them a
	// write and one of them weak or with too small a scope for the other. It needs weak memory.
	Races bool
	// Memory is the size of global memory in bytes. Default 1 GiB.
	Memory uint64
	// L2 is the size of the last cache in bytes, which programs may read. The simulator has no
	// cache. Default 50 MiB.
	L2 int
	// Budget is the number of warp instructions after which a launch counts as one that never ends.
	// Default 1<<32.
	Budget uint64
	// Domain, if not nil, observes stores and the events that order them.
	Domain Domain
	// Watch, if not nil, receives every access to global memory, in the order of the accesses.
	Watch func(Access)
	// Requests, if not nil, receives the requests of each instruction of a warp to global memory,
	// before it executes, for counting sectors and lines.
	Requests func(Request)
	// Rewrite, if not nil, changes the PTX of an image before it is loaded. Tests use it to break a
	// kernel and check that the change is noticed.
	Rewrite func(file, ptx string) string
	// Trace, if not "", is a file that receives every executed instruction; "-" is standard error.
	// Default: the environment's WEFT_SIM_TRACE.
	Trace string
}

const (
	maxThreads = 1024 // per block
	units      = 132  // multiprocessors, as in an H200
	maxDepth   = 1024
)

// architectures are the compute capabilities of GPUs since Volta.
var architectures = []int{70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121}

// Extents that a GPU accepts.
var (
	maxGrid  = device.Dim{X: 1<<31 - 1, Y: 1<<16 - 1, Z: 1<<16 - 1}
	maxBlock = device.Dim{X: 1024, Y: 1024, Z: 64}
)

// Device is a simulated GPU. Work runs while the host waits for work.
type Device struct {
	opts  Options
	rng   *rand.Rand // chooses the next step; nil under Fast
	sched scheduler
	views *views // nil: memory is sequentially consistent

	mu       sync.Mutex
	heap     *heap
	host     map[*byte]int // sizes of blocks of AllocHost
	pinned   map[*pin]bool // registered or mapped memory
	mapped   []*segment    // mapped memory of the host
	modules  map[*device.Image]*loaded
	launches int
	clock    uint64
	// lengths holds the number of accesses in a kernel's last launch, for PCT.
	lengths    map[*program]uint64
	freeBlocks map[shape]*[]*block // blocks of earlier launches, for reuse
	trace      *tracer
	journal    *journal // nil without a domain
	lost       error
	closed     bool

	streams     []*stream // by index, nil where none is open
	lastWork    []uint32  // by index of stream, the number of its last work
	lastAccess  []uint32  // the same for its last work that accesses memory
	works       int       // number submitted so far
	queued      int       // number of them not done
	queuedBytes int       // host memory that these keep, in bytes
	heads       []*work   // cached result of ready, nil after a change
	copies      []*work   // asynchronous ones that the host had not waited for

	// waited is the progress that the host has waited for, and observed what it has seen by that;
	// see [stream.observed]. In a new era, all earlier work is known to all.
	waited   progress
	observed *view
	era      int
}

var _ device.Device = (*Device)(nil)

// Open makes a simulated GPU. With nil options it runs one schedule, fast, and finds no data races.
// Tests that look for races loop over [Schedule].
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

// Parse reads the name of a simulated GPU in the form of the command line. "sim" is Fast, and
// "sim:42" is Random with seed 42. "sim:pct:42" and "sim:fast:42" name the scheduler.
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

// init registers simulated GPUs with device/auto.
func init() {
	simulator.Open = func(choice string) (device.Device, error) {
		opts, err := Parse(choice)
		if err != nil {
			return nil, err
		}
		dev, err := Open(opts)
		if err != nil {
			return nil, err // not a nil *Device
		}
		return dev, nil
	}
}

// lock locks the device for a call, unless it is closed or lost.
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

// Properties describes the simulated GPU.
func (d *Device) Properties() device.Properties {
	return device.Properties{Kind: device.Sim, Name: "simulated GPU", Units: units, Arch: d.opts.Arch, L2: d.opts.L2, Driver: "sim"}
}

// Memory reads free and total memory.
func (d *Device) Memory() (device.Memory, error) {
	if err := d.lock(); err != nil {
		return device.Memory{}, err
	}
	defer d.mu.Unlock()
	return device.Memory{Free: d.heap.limit - d.heap.used, Total: d.heap.limit}, nil
}

// Alloc returns device memory. Reading it before it is written is a fault.
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
		return device.Buffer{}, fmt.Errorf("sim: %w: %d bytes asked for, %d free", device.ErrMemory, size, d.heap.limit-d.heap.used)
	}
	return device.Buffer{Ptr: device.Ptr(s.base), Size: size}, nil
}

// Free releases a buffer; later accesses to it are faults. It is a fault to free it before the host
// has waited for the works that use it.
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

// checkUnused fails the device if the host has not waited for a work that uses a segment. operation
// names the operation on the segment.
func (d *Device) checkUnused(s *segment, operation string) error {
	w := d.unfinished(s.users)
	if w == nil || d.lost != nil {
		return nil
	}
	return d.markLost(&Fault{Reason: fmt.Sprintf("a %s at 0x%x is %s, but the host has not waited for all work that uses it", s.name, s.base, operation), Work: w.String()})
}

// markLost makes the device unusable because of a fault.
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

// Launches returns the number of kernels launched so far. Each is a separate interleaving.
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

// Close releases all memory.
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

// threadsOf returns the number of threads of a block that is within maxBlock.
func threadsOf(d device.Dim) int {
	n := extent(d)
	return n[0] * n[1] * n[2]
}

// withinLimit reports whether an extent is valid and within a limit.
func withinLimit(d, limit device.Dim) bool {
	return d.X >= 0 && d.Y >= 0 && d.Z >= 0 && d.X <= limit.X && d.Y <= limit.Y && d.Z <= limit.Z
}
