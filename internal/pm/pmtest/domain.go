// Package pmtest computes what a crash may leave in memory that outlives the process. A [Domain]
// replaces that memory, and [Kernels] records the stores of kernels on the simulator. Both keep all
// stores that have not been fenced, word by word. At any point [Images.Crash] enumerates the images
// that a crash could leave. A Domain may switch to another thread at every access; a seed
// determines the order. The scheduler of the simulator switches threads of kernels.
//
// The model is hostile. If a thread has stored to a word since its last fence, a crash may leave
// any value of the word since then, independent of other words. Only the order of the values of one
// word is kept.
package pmtest

import (
	"runtime"
	"strings"
)

// Domain implements pm.Domain.
type Domain struct {
	Images
	thread   int        // number of the running thread, which is also the id of its stores
	pending  [][]uint64 // by thread: words stored since its last fence
	yields   []func()   // by thread: function that lets another thread run
	accesses int        // number of accesses so far

	// Step, if not nil, is called after every access that may change the images.
	Step func()
	// Mutant, if not nil, is called before every access and may change the value that the access
	// stores. If Mutant returns true, the access is omitted: a load then returns New, and a
	// compare-and-swap succeeds if the word equals Old.
	Mutant func(a *Access) bool
}

// New returns a domain for the given number of threads. All words are zero and durable.
func New(words uint64, threads int) *Domain {
	return &Domain{Images: newImages(words), pending: make([][]uint64, threads)}
}

// Access describes an access before it happens.
type Access struct {
	Kind     Kind
	At       uint64
	Old, New uint64 // expected value of a compare-and-swap; value to store
	Thread   int
}

// Kind is the kind of an access.
type Kind uint8

// Kinds of accesses.
const (
	Load Kind = iota
	Store
	CompareAndSwap
	Fence
)

// Site returns the place of an access, for use in a Mutant. The place is the function that called
// the memory, such as "gphash.(*table).get", and its line.
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

// beginAccess may let another thread run, and then calls Mutant. It reports whether to omit the
// access.
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

// Fence implements pm.Domain. It makes the stores of this thread durable.
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
