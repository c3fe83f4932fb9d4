package pmtest

import (
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft/internal/pm"
)

// fences executes two fences, the first one twice.
func fences(m *pm.Memory) {
	for i := range uint64(2) {
		m.Store(i, 1)
		m.Fence()
	}
	m.Store(2, 1)
	m.Fence()
}

// NoFence omits one fence of a function each time it runs, and no fence of other functions.
func TestNoFence(t *testing.T) {
	for number, want := range []int{2, 1, 0} {
		d, n := New(8, 1), 0
		leaveOut := NoFence("pmtest.fences", number)
		d.Mutant = func(a *Access) bool {
			out := leaveOut(a)
			if out {
				n++
			}
			return out
		}
		m := pm.New(make([]byte, 8*pm.Word), d)
		m.Fence()
		fences(m)
		if n != want {
			t.Errorf("fence %d was left out %d times, want %d", number, n, want)
		}
	}
}

// Each program runs once, and no program starts after enough images have been checked. A failure is
// reported.
func TestExplore(t *testing.T) {
	var mu sync.Mutex
	ran := map[uint64]int{}
	program := func(wrong uint64) func(uint64) (int, string) {
		return func(seed uint64) (int, string) {
			mu.Lock()
			defer mu.Unlock()
			if ran[seed]++; seed == wrong {
				return 1, "this"
			}
			return 10, ""
		}
	}
	images, failed := Explore(1000, program(0))
	if images < 1000 || images > 10*1000 || failed != "" || len(ran) != images/10 {
		t.Errorf("%d images of %d programs: %q", images, len(ran), failed)
	}
	for seed, n := range ran {
		if n != 1 {
			t.Errorf("program %d ran %d times", seed, n)
		}
	}
	clear(ran)
	if images, failed = Explore(1_000_000, program(7)); !strings.Contains(failed, "seed 7: this") || images > 500_000 {
		t.Errorf("%d images: %q", images, failed)
	}
}
