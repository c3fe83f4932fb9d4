package sim

import (
	"math/bits"
	"slices"
)

// This file assigns rows to registers. PTX as clang writes it has a separate register for almost
// every value. A kernel has hundreds of registers, and those of a warp would not stay in a cache.
// But few values are live at any one place. A linear scan (Poletto and Sarkar, TOPLAS 1999)
// therefore lets registers share a row if they are never live at the same place.

// use lists the registers that a statement reads and writes.
type use struct{ reads, writes []*register }

func (u *use) all() []*register { return slices.Concat(u.reads, u.writes) }

// interval is the part of a program in which a register needs a row.
type interval struct {
	reg         *register
	first, last int
}

// share assigns rows to the registers of a kernel. order is the final order of its basic blocks.
func (a *assembler) share(blocks []basicBlock, order []int) error {
	uses := make([]use, len(a.k.body))
	for i := range uses {
		if _, err := a.instr(&a.k.body[i]); err != nil {
			return a.k.at(i, err)
		}
		uses[i] = a.use
	}
	a.k.rows = assignRows(a.k.intervals(blocks, order, uses))
	return nil
}

// intervals returns the live intervals of the registers, in the order of their first places.
func (k *kernel) intervals(blocks []basicBlock, order []int, uses []use) []interval {
	in, out := k.live(blocks, order, uses)
	regs := make([]*register, k.rows)
	for i := range uses {
		for _, r := range uses[i].all() {
			regs[r.row] = r
		}
	}
	var all []interval
	index := make([]int, k.rows) // index of a register's interval plus 1, by row
	at := 0
	needed := func(row int) {
		if index[row] == 0 {
			all = append(all, interval{reg: regs[row], first: at})
			index[row] = len(all)
		}
		all[index[row]-1].last = at
	}
	for _, b := range order {
		in[b].each(needed)
		for i := blocks[b].first; i < blocks[b].end; i++ {
			for _, r := range uses[i].all() {
				needed(r.row)
			}
			at++
		}
		out[b].each(needed)
		at++
	}
	return all
}

// live returns the registers that are live at the start and at the end of each basic block. A
// register is live if its value is still to be read.
func (k *kernel) live(blocks []basicBlock, order []int, uses []use) (in, out []rowSet) {
	in, out = make([]rowSet, len(blocks)), make([]rowSet, len(blocks))
	written := make([]rowSet, len(blocks)) // registers written in all lanes before they are read
	for b := range blocks {
		in[b], out[b], written[b] = newRowSet(k.rows), newRowSet(k.rows), newRowSet(k.rows)
		for i := blocks[b].end - 1; i >= blocks[b].first; i-- {
			if k.body[i].guard == nil {
				for _, r := range uses[i].writes {
					in[b].remove(r.row)
					written[b].add(r.row)
				}
			}
			for _, r := range uses[i].reads {
				in[b].add(r.row)
				written[b].remove(r.row)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, b := range slices.Backward(order) {
			for _, next := range blocks[b].successors() {
				if out[b].join(in[next], nil) {
					changed = in[b].join(out[b], written[b]) || changed
				}
			}
		}
	}
	return in, out
}

// assignRows assigns rows to the registers of intervals and returns the number of rows. A row
// becomes free one place after the end of its interval, since an instruction may write before it
// has read all its operands.
func assignRows(all []interval) (rows int) {
	ends := map[int][]*register{} // by the place after the end of the interval
	// free rows by the number of rows of a register; only the first row is listed
	free := map[int][]int{}
	at := 0
	for _, s := range all {
		for ; at <= s.first; at++ {
			for _, r := range ends[at] {
				free[r.rows()] = append(free[r.rows()], r.row)
			}
		}
		n := s.reg.rows()
		if list := free[n]; len(list) > 0 {
			s.reg.row, free[n] = list[len(list)-1], list[:len(list)-1]
		} else {
			s.reg.row = rows
			rows += n
		}
		ends[s.last+1] = append(ends[s.last+1], s.reg)
	}
	return rows
}

// rowSet is a set of rows, with one bit for each row.
type rowSet []uint64

func newRowSet(rows int) rowSet { return make(rowSet, (rows+63)/64) }

func (s rowSet) add(row int)    { s[row/64] |= 1 << (row % 64) }
func (s rowSet) remove(row int) { s[row/64] &^= 1 << (row % 64) }

// join adds the rows of o, except those in without, and reports whether it added any.
func (s rowSet) join(o, without rowSet) (grown bool) {
	for i, v := range o {
		if without != nil {
			v &^= without[i]
		}
		grown = grown || v&^s[i] != 0
		s[i] |= v
	}
	return grown
}

// each calls visit for each row of the set.
func (s rowSet) each(visit func(row int)) {
	for i, v := range s {
		for ; v != 0; v &= v - 1 {
			visit(i*64 + bits.TrailingZeros64(v))
		}
	}
}
