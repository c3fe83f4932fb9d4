// Package pmtest computes what a crash may leave of memory that outlives the process. A [Domain]
// stands in for that memory, and [Kernels] records what kernels on the simulator store there. Both
// keep, word by word, the stores that have not been fenced. At any point [Images.Crash] enumerates
// the images that a crash could leave. Threads on a Domain are switched at every access, in an
// order given by a seed. Threads of kernels are switched by the scheduler of the simulator.
//
// The model is hostile. Each word that a thread has stored since its last fence may have any value
// that it had meanwhile, whatever became of the others. Only the order of the values of one word is
// kept.
package pmtest

import (
	"runtime"
	"strings"
)

// Domain implements pm.Domain.
type Domain struct {
	Images
	thread   int        // the running thread; its stores carry this number
	pending  [][]uint64 // by thread: words stored since its last fence
	yields   []func()   // by thread: lets another thread run
	accesses int        // accesses so far

	// Step, if not nil, is called after every access that may change what a crash leaves.
	Step func()
	// Mutant, if not nil, may change what an access stores. By returning true it leaves the access
	// out: a load then returns New, and a compare-and-swap succeeds.
	Mutant func(a *Access) bool
}

// New returns a domain of zero words, all of them durable.
func New(words uint64, threads int) *Domain {
	return &Domain{Images: newImages(words), pending: make([][]uint64, threads)}
}

// Access is an access that is about to happen.
type Access struct {
	Kind     Kind
	At       uint64
	Old, New uint64 // value compared with; value stored
	Thread   int
}

// Kind is the kind of an access.
type Kind uint8

// The kinds of accesses.
const (
	Load Kind = iota
	Store
	CompareAndSwap
	Fence
)

// Site returns the place of an access, for use in a Mutant: the function that called the memory,
// such as "gphash.(*table).get", and the line.
func Site() (function string, line int) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	wasMemory := false
	for {
		f, ok := frames.Next()
		inMemory := strings.Contains(f.Function, "/pm.")
		if wasMemory && !inMemory || !ok {
			return f.Function[strings.LastIndex(f.Function, "/")+1:], f.Line
		}
		wasMemory = inMemory
	}
}

// beginAccess lets another thread run before an access, and reports whether to leave the access
// out.
func (d *Domain) beginAccess(a *Access) bool {
	if d.yields != nil {
		d.yields[d.thread]()
	}
	d.accesses++
	a.Thread = d.thread
	return d.Mutant != nil && d.Mutant(a)
}

// Load implements pm.Domain.
func (d *Domain) Load(at uint64) uint64 {
	if !d.inCrash {
		if a := (Access{Kind: Load, At: at}); d.beginAccess(&a) {
			return a.New
		}
	}
	return d.Images.Load(at)
}

// Store implements pm.Domain.
func (d *Domain) Store(at, v uint64) {
	if d.inCrash {
		d.Images.Store(at, v)
		return
	}
	if a := (Access{Kind: Store, At: at, New: v}); !d.beginAccess(&a) {
		d.write(at, a.New)
	}
}

// CompareAndSwap implements pm.Domain.
func (d *Domain) CompareAndSwap(at, old, v uint64) bool {
	if d.inCrash {
		return d.Images.CompareAndSwap(at, old, v)
	}
	a := Access{Kind: CompareAndSwap, At: at, Old: old, New: v}
	skip := d.beginAccess(&a)
	if *d.word(at) != old {
		return false
	}
	if !skip {
		d.write(at, a.New)
	}
	return true
}

// Accesses returns the number of accesses so far.
func (d *Domain) Accesses() int { return d.accesses }

func (d *Domain) write(at, v uint64) {
	d.recordStore(at, v, d.thread)
	d.pending[d.thread] = append(d.pending[d.thread], at)
	if d.Step != nil {
		d.Step()
	}
}

// Fence implements pm.Domain: it makes the stores of this thread durable.
func (d *Domain) Fence() {
	if d.inCrash {
		d.Images.Fence()
		return
	}
	if d.beginAccess(&Access{Kind: Fence}) {
		return
	}
	for _, at := range d.pending[d.thread] {
		d.makeDurable(at, func(store int) bool { return store == d.thread })
	}
	d.pending[d.thread] = d.pending[d.thread][:0]
	if d.Step != nil {
		d.Step()
	}
}
