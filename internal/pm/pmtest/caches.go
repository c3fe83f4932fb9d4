package pmtest

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/pm"
)

// Caches implements pm.Persist: it keeps what a power failure leaves of memory, which is
// what has been written back and then fenced, word by word. A fence waits for what all
// threads have written back: it takes one thread to find a fence that is missing.
type Caches struct {
	words []uint64

	mu      sync.Mutex
	durable []uint64
	begun   []change // write-backs, and what they write
	Written int      // words written back
	Fences  int
}

// NewCaches are the caches before memory, all of which is durable as it is.
func NewCaches(mapped []byte) *Caches {
	words := batch.View[uint64](mapped)
	return &Caches{words: words, durable: slices.Clone(words)}
}

// WriteBack is for pm.Persist.
func (c *Caches) WriteBack(words []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Written += len(words)
	if len(words) == 0 {
		return
	}
	at := uint64(uintptr(unsafe.Pointer(&words[0]))-uintptr(unsafe.Pointer(&c.words[0]))) / pm.Word
	for i, v := range words {
		c.begun = append(c.begun, change{at + uint64(i), v})
	}
}

// Fence is for pm.Persist.
func (c *Caches) Fence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Fences++
	for _, b := range c.begun {
		c.durable[b.at] = b.v
	}
	c.begun = c.begun[:0]
}

// Left is what a power failure would leave now.
func (c *Caches) Left() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return device.Bytes(slices.Clone(c.durable))
}

// Lost names a word that has been stored and would not survive a power failure now.
func (c *Caches) Lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, v := range c.words {
		if c.durable[at] != v {
			return fmt.Errorf("word %d is %#x, and %#x behind a power failure", at, v, c.durable[at])
		}
	}
	return nil
}
