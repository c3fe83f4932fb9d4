package graph

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Check verifies the graph and returns weft.ErrCorrupt if it is inconsistent. Neighbors must ascend
// and be vertices. In an undirected graph an edge must lie in the rows of both ends with the same
// weight. Degrees and counts must agree. Each unit of memory must belong to exactly one block: of a
// row, of a snapshot, or free. Check reads all memory, and copies it to the host on a GPU. It is
// meant for tests and for diagnosing faults.
func (g *Graph) Check(ctx context.Context) error {
	return wrap("Check", g.withExclusive(ctx, func() error {
		v, free, retired, err := g.engine.image(ctx, g.currentView())
		if err != nil {
			return err
		}
		c := &checker{store: g.store, view: v, owned: make([]bool, g.units)}
		if err := c.checkBlocks(free, retired); err != nil {
			return err
		}
		return c.checkRows(ctx)
	}))
}

type checker struct {
	*store
	*view
	owned         []bool // whether each unit belongs to a block found so far
	used, retired int
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", weft.ErrCorrupt, fmt.Sprintf(format, args...))
}

// markOwned marks the units of a block as owned. It returns an error if one was owned before.
func (c *checker) markOwned(block, class uint32, owner string) error {
	if class >= classes {
		return corrupt("a block of class %d, %s", class, owner)
	}
	for unit := int(block); unit < int(block)+unitsOf(class); unit++ {
		if unit >= len(c.owned) || c.owned[unit] {
			return corrupt("unit %d of a block of class %d at %d, %s, is also part of another block, or beyond the %d units", unit, class, block, owner, len(c.owned))
		}
		c.owned[unit] = true
	}
	return nil
}

func (c *checker) checkBlocks(free [classes][]uint32, retired []retiredBlock) error {
	for class, stack := range free {
		if len(stack) != c.free[class] {
			return corrupt("%d blocks of class %d are free, counted %d", len(stack), class, c.free[class])
		}
		for _, b := range stack {
			if err := c.markOwned(b, uint32(class), "free"); err != nil {
				return err
			}
		}
	}
	for _, x := range retired {
		if err := c.markOwned(x.block, x.size, "of snapshots"); err != nil {
			return err
		}
		c.retired += unitsOf(x.size)
	}
	for u := range uint32(c.view.vertices) {
		words := c.words(u)
		class := words[recordClass]
		if want := c.view.classOf(int(words[recordDegree])); class != want {
			return corrupt("vertex %d of degree %d has a block of class %d, want %d", u, words[recordDegree], class, want)
		}
		if class == 0 {
			continue
		}
		if err := c.markOwned(words[recordBlock], class, fmt.Sprintf("of vertex %d", u)); err != nil {
			return err
		}
		c.used += unitsOf(class)
	}
	if i := slices.Index(c.owned, false); i >= 0 {
		return corrupt("unit %d of %d belongs to no block", i, len(c.owned))
	}
	if c.used != c.store.used || c.retired != c.retiredUnits {
		return corrupt("%d units of rows and %d of snapshots, counted %d and %d", c.used, c.retired, c.store.used, c.retiredUnits)
	}
	return nil
}

func (c *checker) checkRows(ctx context.Context) error {
	arcs, loops, present := uint64(0), uint64(0), uint64(0)
	for u := range uint32(c.view.vertices) {
		if c.hasVertex(u) {
			present++
		}
		r := c.row(u)
		arcs += uint64(len(r.ids))
		for i, v := range r.ids {
			switch {
			case i > 0 && (r.ids[i-1] > v || r.ids[i-1] == v && !c.opts.Multi):
				return corrupt("neighbors %d and %d of vertex %d are %d and %d", i-1, i, u, r.ids[i-1], v)
			case !c.hasVertex(u) || !c.hasVertex(v):
				return corrupt("an edge from %d to %d: do these vertices exist? %v, %v", u, v,
					c.hasVertex(u), c.hasVertex(v))
			case u == v && !c.opts.SelfLoops:
				return corrupt("vertex %d has an edge to itself", u)
			case u == v:
				loops++
			case !c.opts.Directed:
				if err := c.checkReverse(r, i, u, v); err != nil {
					return err
				}
			}
		}
	}
	if arcs != c.arcs || loops != c.loops {
		return corrupt("%d entries of rows and %d self loops, counted %d and %d", arcs, loops, c.arcs, c.loops)
	}
	if counted, err := c.engine.countPresent(ctx); err != nil || counted != present {
		return corrupt("%d vertices, counted %d: %v", present, counted, err)
	}
	return ctx.Err()
}

// checkReverse verifies that edge i of row r, from u to v, is in the row of v with the same weight.
// Parallel edges must have the same order in both rows.
func (c *checker) checkReverse(r row, i int, u, v uint32) error {
	reverse := c.row(v)
	first, _ := slices.BinarySearch(r.ids[:i+1], v)
	at, _ := slices.BinarySearch(reverse.ids, u)
	if at += i - first; at >= len(reverse.ids) || reverse.ids[at] != u {
		return corrupt("vertex %d has an edge to %d, but there is no edge back", u, v)
	}
	var weight [2]uint64
	w := weights{c.view.weight, device.Bytes(weight[:])}
	w.set(0, r.weights, i)
	forward := weight
	w.set(0, reverse.weights, at)
	if forward != weight {
		return corrupt("the edge between %d and %d has different weights at its two ends", u, v)
	}
	return nil
}
