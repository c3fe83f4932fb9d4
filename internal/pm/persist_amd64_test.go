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

// Each instruction takes the lines that it is given: those that do not stay in the caches
// take longer to read then. CLWB may leave them there.
//
// All lines fit the first level of any cache, beside which memory takes tens of times
// as long, and the shortest of many rounds is one that nobody has disturbed. Only every
// other line is read at a time: so those are noticed that an instruction leaves out.
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

// chase is memory whose lines say which one is to be read next, so that each waits for
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

// read is how long it takes to read every other line, after evict, in an order that no
// prefetcher has seen. The race detector would read memory of its own with each.
//
//go:norace
func (c *chase) read(first int, evict func()) time.Duration {
	order := c.rng.Perm(chased / 2)
	word := func(i int) int { return (first + 2*order[i%len(order)]) * lineWords }
	for i := range order {
		c.words[word(i)] = uint64(word(i + 1))
	}
	evict()
	c.fence.Add(1) // loads, too, wait for locked instructions, and these for CLFLUSHOPT; for SFENCE they do not
	start, at := time.Now(), uint64(word(0))
	for range order {
		at = c.words[at]
	}
	took := time.Since(start)
	if at != uint64(word(0)) {
		c.t.Fatal("the lines are no cycle")
	}
	return took
}

// What a line takes that has just been stored to, and the fence behind it.
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
