// Package pmtest tells what a crash may leave of memory that outlives the process. A
// [Domain] stands in for that memory, and [Kernels] hears of what kernels on the
// simulator store there. Both remember, word by word, what has been stored and not been
// fenced since, and at any point [Images.Crash] hands out the images that a crash could
// leave. Threads that run on a Domain are switched at every access, by a seed; those of
// kernels by the scheduler of the simulator.
//
// The model is hostile: of the words that a thread has stored since its last fence each
// may have any value that it had meanwhile, whatever became of the others. Only the
// order of the values of one word is kept.
package pmtest

import (
	"runtime"
	"strings"
)

// Domain implements pm.Domain.
type Domain struct {
	Images
	thread  int        // that runs, and whose number its stores have
	pending [][]uint64 // by thread, words that it has stored since its last fence
	yields  []func()   // lets another thread run
	now     int        // accesses so far

	// Step, if there is one, is called behind every access that may change what a
	// crash leaves.
	Step func()
	// Mutant, if there is one, may change what an access stores, or leave the access
	// out by returning true: a load is New then, a compare-and-swap has worked.
	Mutant func(a *Access) bool
}

// New is a domain of so many words, all of them zero and durable.
func New(words uint64, threads int) *Domain {
	return &Domain{Images: newImages(words), pending: make([][]uint64, threads)}
}

// Access is one that is about to happen.
type Access struct {
	Kind     Kind
	At       uint64
	Old, New uint64 // what is compared with, what is stored
	Thread   int
}

// Kind is that of an access.
type Kind uint8

// The kinds of accesses.
const (
	Load Kind = iota
	Store
	CompareAndSwap
	Fence
)

// Site says where an access comes from, in a Mutant: the function that has called the
// memory, "gphash.(*table).get", and the line.
func Site() (function string, line int) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	inside := false
	for {
		f, more := frames.Next()
		memory := strings.Contains(f.Function, "/pm.")
		if inside && !memory || !more {
			return f.Function[strings.LastIndex(f.Function, "/")+1:], f.Line
		}
		inside = memory
	}
}

// begin lets another thread run before an access, and reports whether the access is
// left out.
func (d *Domain) begin(a *Access) bool {
	if d.yields != nil {
		d.yields[d.thread]()
	}
	d.now++
	a.Thread = d.thread
	return d.Mutant != nil && d.Mutant(a)
}

// Load is for pm.Domain.
func (d *Domain) Load(at uint64) uint64 {
	if !d.looking {
		if a := (Access{Kind: Load, At: at}); d.begin(&a) {
			return a.New
		}
	}
	return d.Images.Load(at)
}

// Store is for pm.Domain.
func (d *Domain) Store(at, v uint64) {
	if d.looking {
		d.Images.Store(at, v)
		return
	}
	if a := (Access{Kind: Store, At: at, New: v}); !d.begin(&a) {
		d.write(at, a.New)
	}
}

// CompareAndSwap is for pm.Domain.
func (d *Domain) CompareAndSwap(at, old, v uint64) bool {
	if d.looking {
		return d.Images.CompareAndSwap(at, old, v)
	}
	a := Access{Kind: CompareAndSwap, At: at, Old: old, New: v}
	left := d.begin(&a)
	if *d.word(at) != old {
		return false
	}
	if !left {
		d.write(at, a.New)
	}
	return true
}

// Now is how many accesses there have been.
func (d *Domain) Now() int { return d.now }

func (d *Domain) write(at, v uint64) {
	d.put(at, v, d.thread)
	d.pending[d.thread] = append(d.pending[d.thread], at)
	if d.Step != nil {
		d.Step()
	}
}

// Fence is for pm.Domain: what this thread has stored is durable.
func (d *Domain) Fence() {
	if d.looking {
		d.Images.Fence()
		return
	}
	if d.begin(&Access{Kind: Fence}) {
		return
	}
	for _, at := range d.pending[d.thread] {
		d.settle(at, func(store int) bool { return store == d.thread })
	}
	d.pending[d.thread] = d.pending[d.thread][:0]
	if d.Step != nil {
		d.Step()
	}
}
