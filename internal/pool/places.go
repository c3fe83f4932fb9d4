package pool

import (
	"cmp"
	"fmt"
	"slices"
)

// extent locates a level or an area in the pool.
type extent struct {
	kind           string
	number         int
	offset, length uint64
}

func (p extent) String() string {
	return fmt.Sprintf("%s %d at %d+%d", p.kind, p.number, p.offset, p.length)
}

// validateExtents returns an error if a level or an area does not lie within the pool, or overlaps
// another one. It adds an offset and a length only after it has checked that both are less than the
// size of the pool.
func (s *Superblock) validateExtents(size uint64) error {
	extents := make([]extent, 0, len(s.Levels)+len(s.Areas))
	for i, l := range s.Levels {
		p := extent{"level", i, l.Offset, l.Length}
		switch {
		case l.State > Draining:
			return fmt.Errorf("%v: state %v", p, l.State)
		case (l.State == Free) != (l.Length == 0):
			return fmt.Errorf("%v: %v", p, l.State)
		}
		extents = append(extents, p)
	}
	for i, a := range s.Areas {
		p := extent{"area", i, a.Offset, a.Length}
		if a.Used > a.Length {
			return fmt.Errorf("%v: %d bytes used", p, a.Used)
		}
		extents = append(extents, p)
	}
	for _, p := range extents {
		switch {
		case p.length == 0 && p.offset == 0:
		case p.offset%Page != 0 || p.length%Page != 0:
			return fmt.Errorf("%v: not multiples of %d", p, Page)
		case p.length == 0 || p.offset < DataStart || p.length > size || p.offset > size-p.length:
			return fmt.Errorf("%v: not between %d and %d", p, DataStart, size)
		}
	}
	extents = slices.DeleteFunc(extents, func(p extent) bool { return p.length == 0 })
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(extents); i++ {
		if a, b := extents[i-1], extents[i]; a.offset+a.length > b.offset {
			return fmt.Errorf("%v and %v overlap", a, b)
		}
	}
	return nil
}

// validateLevels returns an error if the levels have states that no resize can leave. Used levels
// have consecutive numbers from Bottom to Top. During a resize the lowest ones may be draining.
func (s *Superblock) validateLevels(uint64) error {
	if s.Bottom > s.Top || s.Top >= MaxLevels {
		return fmt.Errorf("levels %d to %d: not in order, or beyond %d", s.Bottom, s.Top, MaxLevels-1)
	}
	open := false // a lower level is live
	for i, l := range s.Levels {
		inside := uint32(i) >= s.Bottom && uint32(i) <= s.Top
		open = open || l.State == Live
		switch {
		case l.State == Free && !inside, l.State == Live && inside:
		case l.State == Draining && inside && !open && uint32(i) != s.Top:
		default:
			return fmt.Errorf("level %d: %v while levels %d to %d are used", i, l.State, s.Bottom, s.Top)
		}
	}
	return nil
}
