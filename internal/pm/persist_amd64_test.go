package pm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// Each instruction evicts exactly the given lines, so reading these lines takes longer. CLWB may
// leave the lines in the caches.
//
// All lines fit in the first-level cache, and reading them from memory takes tens of times as long.
// The test takes the minimum over many rounds, which excludes disturbed rounds. Each round reads
// only every other line, so the test detects lines that an instruction does not evict.
func TestInstructions(t *testing.T) {
	const rounds, slower = 200, 4
	c := newChase(t)
	for name, evict := range map[string]func(first unsafe.Pointer, lines, line uintptr){"CLFLUSH": clflush, "CLFLUSHOPT": clflushopt, "CLWB": clwb} {
		if name == "CLWB" && machine.name != "CLWB" || name == "CLFLUSHOPT" && machine.name == "CLFLUSH" {
			continue
		}
		for first := range 2 {
			cached, whole, single := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for range rounds {
				cached = min(cached, c.read(first, func() {}))
				whole = min(whole, c.read(first, func() { evict(c.line(0), chased, lineBytes) }))
				single = min(single, c.read(first, func() {
					for i := range chased {
						evict(c.line(i), 1, lineBytes)
					}
					evict(nil, 0, lineBytes)
				}))
			}
			t.Logf("%s: every other line from line %d on is read in %v, in %v when all have been taken, in %v when taken one by one", name, first, cached, whole, single)
			if name != "CLWB" && min(whole, single) < slower*cached {
				t.Errorf("%s does not take lines", name)
			}
		}
	}
}

const lineBytes, lineWords, chased = 64, 64 / Word, 256

// chase is memory in which each line holds the position of the next line, so each read waits for
// the one before.
type chase struct {
	t     *testing.T
	rng   *rand.Rand
	words []uint64
	fence atomic.Uint32
}

func newChase(t *testing.T) *chase {
	words := make([]uint64, (chased+1)*lineWords)
	for uintptr(unsafe.Pointer(&words[0]))%lineBytes != 0 {
		words = words[1:]
	}
	return &chase{t: t, rng: rand.New(rand.NewPCG(1, 2)), words: words}
}

func (c *chase) line(i int) unsafe.Pointer { return unsafe.Pointer(&c.words[i*lineWords]) }

// read returns the time to read every other line after evict, in an order that no prefetcher has
// seen. The race detector would read memory of its own at each access.
//
//go:norace
func (c *chase) read(first int, evict func()) time.Duration {
	order := c.rng.Perm(chased / 2)
	word := func(i int) int { return (first + 2*order[i%len(order)]) * lineWords }
	for i := range order {
		c.words[word(i)] = uint64(word(i + 1))
	}
	evict()
	// Loads wait for locked instructions, and locked instructions wait for CLFLUSHOPT. Loads do not
	// wait for SFENCE.
	c.fence.Add(1)
	start, at := time.Now(), uint64(word(0))
	for range order {
		at = c.words[at]
	}
	elapsed := time.Since(start)
	if at != uint64(word(0)) {
		c.t.Fatal("the lines are no cycle")
	}
	return elapsed
}

// BenchmarkWriteBack measures the write-back of lines that were just stored to, and the fence after
// it.
func BenchmarkWriteBack(b *testing.B) {
	memory := make([]byte, 64<<20)
	for name, writeBack := range map[string]func(first unsafe.Pointer, lines, line uintptr){"CLFLUSH": clflush, "CLFLUSHOPT": clflushopt, "CLWB": clwb} {
		if name == "CLWB" && machine.name != "CLWB" || name == "CLFLUSHOPT" && machine.name == "CLFLUSH" {
			continue
		}
		for _, lines := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/lines=%d", name, lines), func(b *testing.B) {
				at := 0
				for b.Loop() {
					for i := range lines {
						memory[at+64*i]++
					}
					writeBack(unsafe.Pointer(&memory[at]), uintptr(lines), 64)
					storeFence()
					at = (at + 64*4099) % (len(memory) - 64*lines)
				}
			})
		}
	}
}
