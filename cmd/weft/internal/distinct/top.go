package distinct

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"github.com/weftgo/weft/internal/arena"
)

// ranked is an item as the order of results sees it: by count, falling, then
// by bytes, of which prefix holds the first eight.
type ranked struct {
	count  uint64
	prefix uint64
	id     uint32
}

// Top iterates over the n most frequent items, or all if n is 0 or less: most
// frequent first, items of equal count by their bytes, ascending. An item must
// not be used after its step of the iteration.
func (c *Counter) Top(n int) iter.Seq2[[]byte, uint64] {
	return func(yield func(item []byte, count uint64) bool) {
		var buf []byte
		for _, r := range c.order(n) {
			var item []byte
			item, buf = c.items.bytes(r.id, buf)
			if !yield(item, r.count) {
				return
			}
		}
	}
}

// order returns the first n items in the order of results, all if n <= 0.
func (c *Counter) order(n int) []ranked {
	c.parallel(len(c.workers), (*worker).flushAll)
	all := len(c.items.words)
	if n > 0 && n < all {
		return c.items.first(n)
	}
	rs := make([]ranked, all)
	c.items.sort(rs, len(c.workers))
	return rs
}

// bytes returns an item; a short one is written to buf, which is returned.
func (t *items) bytes(id uint32, buf []byte) (item, newBuf []byte) {
	word := t.words[id]
	if word&arena.Long != 0 {
		return t.arena.At(word), buf
	}
	buf = arena.Unpack(buf[:0], word)
	return buf, buf
}

func (t *items) rank(id uint32) ranked {
	var b [arena.MaxShort + 1]byte
	item, _ := t.bytes(id, b[:0])
	if len(item) <= arena.MaxShort {
		clear(b[len(item):])
		item = b[:]
	}
	return ranked{t.counts[id], binary.BigEndian.Uint64(item), id}
}

func (t *items) compare(a, b ranked) int {
	if a.count != b.count {
		return cmp.Compare(b.count, a.count)
	}
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	var ab, bb [arena.MaxShort + 1]byte
	x, _ := t.bytes(a.id, ab[:0])
	y, _ := t.bytes(b.id, bb[:0])
	return bytes.Compare(x, y)
}

// worst is a heap of items with the last of them in the order of results on
// top.
type worst struct {
	t  *items
	rs []ranked
}

func (h *worst) Len() int           { return len(h.rs) }
func (h *worst) Less(i, j int) bool { return h.t.compare(h.rs[i], h.rs[j]) > 0 }
func (h *worst) Swap(i, j int)      { h.rs[i], h.rs[j] = h.rs[j], h.rs[i] }
func (h *worst) Push(x any)         { h.rs = append(h.rs, x.(ranked)) }
func (h *worst) Pop() any {
	last := h.rs[len(h.rs)-1]
	h.rs = h.rs[:len(h.rs)-1]
	return last
}

// first returns the first n items in the order of results; n is smaller than
// their number.
func (t *items) first(n int) []ranked {
	h := &worst{t: t, rs: make([]ranked, 0, n)}
	for id := range n {
		h.rs = append(h.rs, t.rank(uint32(id)))
	}
	heap.Init(h)
	for id := n; id < len(t.words); id++ {
		if t.counts[id] < h.rs[0].count {
			continue
		}
		if r := t.rank(uint32(id)); t.compare(r, h.rs[0]) < 0 {
			h.rs[0] = r
			heap.Fix(h, 0)
		}
	}
	slices.SortFunc(h.rs, t.compare)
	return h.rs
}

// sort fills rs with all items in the order of results: workers sort equal
// shares, which are then merged in pairs.
func (t *items) sort(rs []ranked, workers int) {
	share := max((len(rs)+workers-1)/workers, 1)
	var wg sync.WaitGroup
	for lo := 0; lo < len(rs); lo += share {
		part := rs[lo:min(lo+share, len(rs))]
		wg.Go(func() {
			for i := range part {
				part[i] = t.rank(uint32(lo + i))
			}
			slices.SortFunc(part, t.compare)
		})
	}
	wg.Wait()
	from, to := rs, make([]ranked, len(rs))
	for ; share < len(rs); share *= 2 {
		for lo := 0; lo < len(rs); lo += 2 * share {
			mid, hi := min(lo+share, len(rs)), min(lo+2*share, len(rs))
			wg.Go(func() { t.merge(to[lo:hi], from[lo:mid], from[mid:hi]) })
		}
		wg.Wait()
		from, to = to, from
	}
	if len(rs) > 0 && &from[0] != &rs[0] {
		copy(rs, from)
	}
}

// merge merges the sorted a and b into dst.
func (t *items) merge(dst, a, b []ranked) {
	for i := range dst {
		if len(b) == 0 || len(a) > 0 && t.compare(a[0], b[0]) <= 0 {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
	}
}
