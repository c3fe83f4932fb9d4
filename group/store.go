package group

import (
	"errors"
	"runtime"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/spill"
)

// fixedStore is the memory of all parts of a table of fixed capacity. It lies outside the Go heap,
// so the collector neither scans it nor lets the heap grow in proportion to it. The system gets it
// back at once.
type fixedStore struct {
	groupsPerPart int // capacity of each part
	recs, orders  *spill.Memory[uint64]
	nulls         *spill.Memory[uint64]
	index         *spill.Memory[uint32]
	texts         *spill.Memory[textRef]
	parts, stride int
}

// groupBytes returns the maximum memory of a group in a table, except byte strings.
func (t *table) groupBytes() int {
	return 8*t.l.stride() + 8 + 4*2*indexLoad + 8*len(t.l.sources) + 24*t.l.texts
}

// fixCapacity moves all groups to parts of fixed capacity that take the given bytes in total. The
// number of parts never decreases, because groups of a part must stay in the order of their places.
func (t *table) fixCapacity(dev device.Host, bytes int64) error {
	capacity := int(bytes / int64(t.groupBytes()))
	n := max(partsFor(capacity), len(t.parts))
	s, err := newStore(t.l, n, max(capacity/n, 1))
	if err != nil {
		return err
	}
	pool := new(hostmem.Pool)
	runtime.AddCleanup(t, (*hostmem.Pool).Free, pool) // if free is not called
	runtime.AddCleanup(t, (*fixedStore).free, s)
	parts := make([]*part, n)
	for i := range parts {
		parts[i] = s.part(t.l, i)
		parts[i].texts.pool = pool
	}
	t.replaceParts(dev, parts)
	t.store.free()
	t.pool.Free()
	t.store, t.pool = s, pool
	return nil
}

func newStore(l *layout, parts, per int) (s *fixedStore, err error) {
	s = &fixedStore{groupsPerPart: per, parts: parts, stride: l.stride()}
	var errs [5]error
	s.recs, errs[0] = spill.Make[uint64](nil, parts*(per+1)*l.stride())
	s.orders, errs[1] = spill.Make[uint64](nil, parts*per)
	s.nulls, errs[2] = spill.Make[uint64](nil, parts*per*len(l.sources))
	s.index, errs[3] = spill.Make[uint32](nil, parts*indexFor(per))
	s.texts, errs[4] = spill.Make[textRef](nil, parts*per*l.texts)
	if err := errors.Join(errs[:]...); err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

// part returns part i, without groups.
func (s *fixedStore) part(l *layout, i int) *part {
	words, index := (s.groupsPerPart+1)*s.stride, indexFor(s.groupsPerPart)
	p := &part{l: l}
	p.recs = s.recs.Slice[i*words : i*words+s.stride : (i+1)*words]
	p.index = s.index.Slice[i*index : (i+1)*index : (i+1)*index]
	p.orders = s.orders.Slice[i*s.groupsPerPart : i*s.groupsPerPart : (i+1)*s.groupsPerPart]
	texts := s.groupsPerPart * l.texts
	p.texts.refs = s.texts.Slice[i*texts : i*texts : (i+1)*texts]
	for j := range l.sources {
		at := (i*len(l.sources) + j) * s.groupsPerPart
		p.nulls = append(p.nulls, s.nulls.Slice[at:at:at+s.groupsPerPart])
	}
	return p
}

// mayOverflow reports whether a part may be too small for the groups of n more rows.
func (t *table) mayOverflow(n int) bool {
	for _, p := range t.parts {
		if p.n+min(n, 2*n/len(t.parts)+64) > t.store.groupsPerPart {
			return true
		}
	}
	return false
}

// free frees the memory of fixed parts and of byte strings. The table must not be used afterwards.
func (t *table) free() {
	t.store.free()
	t.pool.Free()
	t.store = nil
}

func (s *fixedStore) free() {
	if s == nil {
		return
	}
	for _, m := range []*spill.Memory[uint64]{s.recs, s.orders, s.nulls} {
		if m != nil {
			m.Free()
		}
	}
	if s.index != nil {
		s.index.Free()
	}
	if s.texts != nil {
		s.texts.Free()
	}
}
