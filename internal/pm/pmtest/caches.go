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

// Caches implements pm.Persist. It records for each word the value that a power failure would
// leave, which is the last value that was written back and then fenced. A fence completes the
// write-backs of all threads, so only single-threaded tests detect a missing fence.
type Caches struct {
	words []uint64

	mu       sync.Mutex
	durable  []uint64
	inFlight []change // write-backs in flight, with their values
	Written  int      // number of words written back
	Fences   int
}

// NewCaches returns a Caches that records the stores to mapped memory. The current contents are
// durable.
func NewCaches(mapped []byte) *Caches {
	words := batch.View[uint64](mapped)
	return &Caches{words: words, durable: slices.Clone(words)}
}

// WriteBack implements pm.Persist.
func (c *Caches) WriteBack(words []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Written += len(words)
	if len(words) == 0 {
		return
	}
	at := uint64(uintptr(unsafe.Pointer(&words[0]))-uintptr(unsafe.Pointer(&c.words[0]))) / pm.Word
	for i, v := range words {
		c.inFlight = append(c.inFlight, change{at + uint64(i), v})
	}
}

// Fence implements pm.Persist.
func (c *Caches) Fence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Fences++
	for _, b := range c.inFlight {
		c.durable[b.at] = b.v
	}
	c.inFlight = c.inFlight[:0]
}

// Durable returns the memory that a power failure would leave now.
func (c *Caches) Durable() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return device.Bytes(slices.Clone(c.durable))
}

// CheckDurable returns an error if a power failure now would lose a store.
func (c *Caches) CheckDurable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, v := range c.words {
		if c.durable[at] != v {
			return fmt.Errorf("word %d is %#x, but %#x after a power failure", at, v, c.durable[at])
		}
	}
	return nil
}
