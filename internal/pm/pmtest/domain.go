// Package pmtest tells what a crash may leave of memory that outlives the process. A
// [Domain] stands in for that memory and remembers, word by word, what has been stored
// and not been fenced since; threads that run on it are switched at every access, by a
// seed; and at any point [Domain.Crash] hands out the images that a crash could leave.
//
// The model is hostile: of the words that a thread has stored since its last fence each
// may have any value that it had meanwhile, whatever became of the others. Only the
// order of the values of one word is kept.
package pmtest

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
)

// Domain implements pm.Domain.
type Domain struct {
	pages [][]uint64 // as threads see them; nil: all zero
	dirty map[uint64]*history

	thread  int        // that runs
	pending [][]uint64 // by thread, words that it has stored since its last fence
	yields  []func()   // lets another thread run
	undo    []change   // while an image is looked at
	looking bool
	now     int // accesses so far

	// Step, if there is one, is called behind every access that may change what a
	// crash leaves.
	Step func()
	// Mutant, if there is one, may change what an access stores, or leave the access
	// out by returning true: a load is New then, a compare-and-swap has worked.
	Mutant func(a *Access) bool
}

// history is what a word has been since the value that is durable for sure.
type history struct {
	values []uint64
	by     []int // thread
}

type change struct{ at, was uint64 }

// pageWords is how many words a page has.
const pageWords = 512

// New is a domain of so many words, all of them zero and durable.
func New(words uint64, threads int) *Domain {
	return &Domain{pages: make([][]uint64, (words+pageWords-1)/pageWords), dirty: map[uint64]*history{}, pending: make([][]uint64, threads)}
}

func (d *Domain) word(at uint64) *uint64 {
	p := &d.pages[at/pageWords]
	if *p == nil {
		*p = make([]uint64, pageWords)
	}
	return &(*p)[at%pageWords]
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
	return *d.word(at)
}

// Store is for pm.Domain.
func (d *Domain) Store(at, v uint64) {
	a := Access{Kind: Store, At: at, New: v}
	if d.looking || !d.begin(&a) {
		d.write(at, a.New)
	}
}

// CompareAndSwap is for pm.Domain.
func (d *Domain) CompareAndSwap(at, old, v uint64) bool {
	a := Access{Kind: CompareAndSwap, At: at, Old: old, New: v}
	left := !d.looking && d.begin(&a)
	if *d.word(at) != old {
		return false
	}
	if !left {
		d.write(at, a.New)
	}
	return true
}

// Dirty is how many words have been stored and not been fenced since.
func (d *Domain) Dirty() int { return len(d.dirty) }

// Now is how many accesses there have been.
func (d *Domain) Now() int { return d.now }

// Word is what a word is, without an access.
func (d *Domain) Word(at uint64) uint64 { return *d.word(at) }

func (d *Domain) write(at, v uint64) {
	w := d.word(at)
	if d.looking {
		d.undo = append(d.undo, change{at, *w})
		*w = v
		return
	}
	h := d.dirty[at]
	if h == nil {
		h = &history{values: []uint64{*w}, by: []int{-1}}
		d.dirty[at] = h
	}
	h.values, h.by = append(h.values, v), append(h.by, d.thread)
	d.pending[d.thread] = append(d.pending[d.thread], at)
	*w = v
	if d.Step != nil {
		d.Step()
	}
}

// Fence is for pm.Domain: what this thread has stored is durable.
func (d *Domain) Fence() {
	if d.looking || d.begin(&Access{Kind: Fence}) {
		return
	}
	for _, at := range d.pending[d.thread] {
		h := d.dirty[at]
		if h == nil {
			continue
		}
		last := 0
		for i, by := range h.by {
			if by == d.thread {
				last = i
			}
		}
		h.values, h.by = h.values[last:], h.by[last:]
		h.by[0] = -1
		if len(h.values) == 1 {
			delete(d.dirty, at)
		}
	}
	d.pending[d.thread] = d.pending[d.thread][:0]
	if d.Step != nil {
		d.Step()
	}
}

// Crash calls look with the images that a crash could leave now: with all of them, if
// they are no more than most, otherwise with as many: the oldest, the newest, and
// others by chance, in which few, half or most of the words are new. Within look the domain has the image, and what look stores is
// forgotten with it. It returns the number of images.
func (d *Domain) Crash(rng *rand.Rand, most int, look func()) (images int) {
	if d.looking {
		return 0
	}
	at := slices.Sorted(maps.Keys(d.dirty))
	all := 1
	for _, w := range at {
		if all *= len(d.dirty[w].values); all > most {
			all = most + 1
			break
		}
	}
	for i := range min(all, most) {
		newest := [...]float64{.02, .5, .98}[rng.IntN(3)] // a few words of many are rarely all there, or all lost
		d.image(at, func(_, n int) int {
			switch {
			case all <= most:
				c := i % n
				i /= n
				return c
			case i < 2:
				return i * (n - 1)
			case rng.Float64() < newest:
				return n - 1
			}
			return rng.IntN(n - 1)
		}, look)
	}
	return min(all, most)
}

// image looks at one image, of which choose picks the value of each dirty word.
func (d *Domain) image(at []uint64, choose func(word, values int) int, look func()) {
	d.looking, d.undo = true, d.undo[:0]
	for j, w := range at {
		h := d.dirty[w]
		if v := h.values[choose(j, len(h.values))]; v != *d.word(w) {
			d.write(w, v)
		}
	}
	look()
	for i := len(d.undo) - 1; i >= 0; i-- {
		*d.word(d.undo[i].at) = d.undo[i].was
	}
	d.looking = false
}

// Lose takes back, while an image is looked at, some of what has been stored since it
// was made, by chance: as if what stored that had been cut short as well.
func (d *Domain) Lose(rng *rand.Rand, since int) {
	for i := len(d.undo) - 1; i >= since; i-- {
		if rng.IntN(2) == 0 {
			*d.word(d.undo[i].at) = d.undo[i].was
		}
	}
}

// Stored is how much has been stored since the image was made, for Lose.
func (d *Domain) Stored() int { return len(d.undo) }
