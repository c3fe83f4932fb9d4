package pmtest

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// images returns the values of words 0 and 1 that a crash could leave.
func images(d *Domain, limit int) map[[2]uint64]bool {
	found := map[[2]uint64]bool{}
	d.Crash(rand.New(rand.NewPCG(1, 1)), limit, func() { found[[2]uint64{d.Load(0), d.Load(1)}] = true })
	return found
}

// After a crash each word has its value at its last fence or any later value, independent of other
// words.
func TestCrash(t *testing.T) {
	d := New(8, 2)
	checkImages := func(when string, want ...[2]uint64) {
		t.Helper()
		all := map[[2]uint64]bool{}
		for _, w := range want {
			all[w] = true
		}
		if is := images(d, 100); !maps.Equal(is, all) {
			t.Errorf("%s: images %v, want %v", when, is, want)
		}
		if d.Load(0) != want[len(want)-1][0] || d.Load(1) != want[len(want)-1][1] {
			t.Errorf("%s: the memory is not what has been stored", when)
		}
	}
	checkImages("at first", [2]uint64{})
	d.Store(0, 1)
	checkImages("one store", [2]uint64{}, [2]uint64{1, 0})
	d.Store(0, 2)
	checkImages("two stores", [2]uint64{}, [2]uint64{1, 0}, [2]uint64{2, 0})
	d.CompareAndSwap(1, 0, 7)
	checkImages("two words", [2]uint64{}, [2]uint64{1, 0}, [2]uint64{0, 7}, [2]uint64{1, 7}, [2]uint64{2, 0}, [2]uint64{2, 7})
	d.thread = 1
	d.Fence()
	d.Store(1, 8)
	checkImages("a fence of another thread", [2]uint64{}, [2]uint64{1, 0}, [2]uint64{2, 0}, [2]uint64{0, 7}, [2]uint64{1, 7}, [2]uint64{2, 7},
		[2]uint64{0, 8}, [2]uint64{1, 8}, [2]uint64{2, 8})
	d.thread = 0
	d.Fence()
	checkImages("a fence", [2]uint64{2, 7}, [2]uint64{2, 8})
	if d.Dirty() != 1 {
		t.Errorf("%d words are dirty, want 1", d.Dirty())
	}
	d.thread = 1
	d.Fence()
	checkImages("both fences", [2]uint64{2, 8})
}

// Stores to an image are discarded with the image. RevertRandom discards a part of them earlier.
func TestLook(t *testing.T) {
	d, rng := New(64, 1), rand.New(rand.NewPCG(1, 1))
	d.Store(0, 1)
	kept := map[uint64]int{}
	for range 100 {
		d.Crash(rng, 10, func() {
			since := d.NumStores()
			d.Store(1, 5)
			d.RevertRandom(rng, since)
			kept[d.Load(1)]++
		})
	}
	if d.Load(1) != 0 || kept[0] == 0 || kept[5] == 0 || len(kept) != 2 {
		t.Errorf("word 1 is %d; while images were looked at it was %v", d.Load(1), kept)
	}
}

// If more images are possible than requested, the sample includes images in which most words are
// new.
func TestSamples(t *testing.T) {
	d, rng := New(64, 1), rand.New(rand.NewPCG(1, 1))
	for at := range uint64(40) {
		d.Store(at, 1)
	}
	seen := map[uint64]int{}
	n := d.Crash(rng, 300, func() {
		sum := uint64(0)
		for at := range uint64(40) {
			sum += d.Load(at)
		}
		seen[sum]++
	})
	if n != 300 || seen[0] == 0 || seen[40] == 0 || seen[39] == 0 || seen[1] == 0 || seen[20] == 0 {
		t.Errorf("%d images, by new words %v", n, seen)
	}
}

// Threads are switched before any access, and all orders occur.
func TestRun(t *testing.T) {
	orders := map[uint64]bool{}
	for seed := range uint64(200) {
		d := New(8, 2)
		// an increment is lost if another thread runs between load and store
		add := func() { d.Store(0, d.Load(0)+1) }
		d.Run(rand.New(rand.NewPCG(seed, 1)), add, add)
		orders[d.Load(0)] = true
	}
	if !orders[1] || !orders[2] {
		t.Errorf("two threads that add one leave %v", orders)
	}
}

// A mutant omits stores and changes others. Site returns a function with its package.
func TestMutant(t *testing.T) {
	d := New(8, 1)
	d.Mutant = func(a *Access) bool {
		a.New++
		return a.At == 1
	}
	d.Store(0, 5)
	d.Store(1, 5)
	if !d.CompareAndSwap(1, 0, 9) || d.Word(0) != 6 || d.Word(1) != 0 || d.Load(1) != 1 {
		t.Error("a mutant does not do what it says")
	}
}
