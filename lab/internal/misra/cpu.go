package misra

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hash"
)

// grain is the number of operations that a core takes at a time.
const grain = 1 << 12

// hostLaunch returns the function apply for the host. It runs the algorithm of misra.cu on all
// cores, with Go's atomics, which are sequentially consistent.
func (s *Set) hostLaunch(dev device.Host) func(*device.Stream, batch, uint32) error {
	return func(stream *device.Stream, b batch, first uint32) error {
		if err := stream.Sync(context.Background()); err != nil { // the stream may be closed
			return err
		}
		l := lists(s.words.Host())
		kinds, keys, ok := b.kinds.Host(), b.keys.Host(), b.ok.Host()
		dev.Parallel(len(keys), grain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				head := hash.Reduce32(hash.Uint32(keys[i], s.opts.Seed), uint32(s.opts.Buckets))
				done := l.apply(kinds[i], head, keys[i], first+uint32(i))
				if len(ok) > 0 {
					ok[i] = done
				}
			}
		})
		return nil
	}
}

// lists are the words of a set.
type lists []uint64

const mark = 1

func keyOf(w uint64) uint32                 { return uint32(w >> 32) }
func nextOf(w uint64) uint32                { return uint32(w) >> 1 }
func linked(key uint32, next uint32) uint64 { return uint64(key)<<32 | uint64(next)<<1 }

func (l lists) load(i uint32) uint64 { return atomic.LoadUint64(&l[i]) }
func (l lists) swap(i uint32, from, to uint64) bool {
	return atomic.CompareAndSwapUint64(&l[i], from, to)
}

func (l lists) apply(kind weft.OpKind, head, key, node uint32) bool {
	switch kind {
	case weft.OpGet:
		return l.search(head, key)
	case weft.OpDelete:
		return l.remove(head, key)
	}
	return l.insert(head, key, node)
}

// place is the position of a key, present or not, between the words prev and cur.
type place struct {
	prev, cur       uint32 // indices; cur is 0 at the end of the list
	before, current uint64 // content of both words
	found           bool   // cur holds the key
}

// find returns the place of a key. It unlinks marked nodes on the way.
func (l lists) find(head, key uint32) place {
again:
	at := place{prev: head, before: l.load(head)}
	for {
		if at.cur = nextOf(at.before); at.cur == 0 {
			return at
		}
		at.current = l.load(at.cur)
		if at.current&mark != 0 {
			unlinked := linked(keyOf(at.before), nextOf(at.current))
			if !l.swap(at.prev, at.before, unlinked) {
				goto again
			}
			at.before = unlinked
			continue
		}
		if keyOf(at.current) >= key {
			at.found = keyOf(at.current) == key
			return at
		}
		at.prev, at.before = at.cur, at.current
	}
}

func (l lists) search(head, key uint32) bool {
	w := l.load(head)
	for nextOf(w) != 0 {
		if w = l.load(nextOf(w)); keyOf(w) >= key {
			return keyOf(w) == key && w&mark == 0
		}
	}
	return false
}

func (l lists) insert(head, key, node uint32) bool {
	for {
		at := l.find(head, key)
		if at.found {
			return false
		}
		atomic.StoreUint64(&l[node], linked(key, at.cur))
		if l.swap(at.prev, at.before, linked(keyOf(at.before), node)) {
			return true
		}
	}
}

// remove deletes a key by marking its node. If the node cannot be unlinked at once, the next find
// that meets it unlinks it.
func (l lists) remove(head, key uint32) bool {
	for {
		at := l.find(head, key)
		if !at.found {
			return false
		}
		if l.swap(at.cur, at.current, at.current|mark) {
			l.swap(at.prev, at.before, linked(keyOf(at.before), nextOf(at.current)))
			return true
		}
	}
}
