package sim

import (
	"math/bits"
	"slices"
)

// Registers share rows. PTX as clang writes it has a separate register for almost every value: a
// kernel has hundreds, and a warp's would not stay in a cache. But few values are live at any one
// place. Registers therefore get rows by linear scan (Poletto and Sarkar, TOPLAS 1999): registers
// that are never live at the same place may share a row.

// A use lists the registers that a statement reads and writes.
type use struct{ reads, writes []*register }

// all returns all registers of the use.
func (u *use) all() []*register { return slices.Concat(u.reads, u.writes) }

// An interval is the part of a program, from one place to another, in which a register needs a row.
type interval struct {
	reg         *register
	first, last int
}

// share assigns the final rows to the registers of a kernel, for its basic blocks in their final
// order.
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

// intervals returns the live intervals of the registers, sorted by their begin.
func (k *kernel) intervals(blocks []basicBlock, order []int, uses []use) []interval {
	in, out := k.live(blocks, order, uses)
	regs := make([]*register, k.rows)
	for i := range uses {
		for _, r := range uses[i].all() {
			regs[r.row] = r
		}
	}
	var all []interval
	index := make([]int, k.rows) // of a register's interval, from 1
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

// live returns, for each basic block, the registers with a value that is still to be read, at its
// begin and at its end.
func (k *kernel) live(blocks []basicBlock, order []int, uses []use) (in, out []rowSet) {
	in, out = make([]rowSet, len(blocks)), make([]rowSet, len(blocks))
	written := make([]rowSet, len(blocks)) // before they are read, in all lanes
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

// assignRows assigns rows to the registers of intervals and returns the number of rows. A row is
// free again one place after the end of its interval, since an instruction may write before it has
// read everything.
func assignRows(all []interval) (rows int) {
	ends := map[int][]*register{} // by the place after the end
	free := map[int][]int{}       // first of some rows, by the number of rows
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

// A rowSet has a bit for each row.
type rowSet []uint64

func newRowSet(rows int) rowSet { return make(rowSet, (rows+63)/64) }

func (s rowSet) add(row int)    { s[row/64] |= 1 << (row % 64) }
func (s rowSet) remove(row int) { s[row/64] &^= 1 << (row % 64) }

// join adds the rows of o that are not in without, which may be nil, and reports whether it added
// any.
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

// each visits the rows.
func (s rowSet) each(visit func(row int)) {
	for i, v := range s {
		for ; v != 0; v &= v - 1 {
			visit(i*64 + bits.TrailingZeros64(v))
		}
	}
}
