package sim

import "slices"

// This file states PTX's memory model by the axioms of its manual (PTX ISA, chapter Memory
// Consistency Model), for programs of few operations. Tests check the simulator against it.

// action is one operation of a small program. Fences have no location; exchanges read and write.
type action struct {
	thread int // -1: the initial value of a location
	block  int
	fence  bool
	loc    int
	reads  bool
	value  uint64 // value written, 0 if none
	order  order
	scope  Scope
}

func (a *action) strong() bool { return a.order != orderWeak }
func (a *action) releases() bool {
	return !a.fence && (a.order == orderRelease || a.order == orderAcqRel)
}
func (a *action) acquires() bool {
	return !a.fence && (a.order == orderAcquire || a.order == orderAcqRel)
}

func (a *action) morallyStrong(b *action) bool {
	if !a.fence && !b.fence && a.loc != b.loc {
		return false
	}
	return a.thread == b.thread || a.strong() && b.strong() && (a.block == b.block || a.scope > ScopeBlock && b.scope > ScopeBlock)
}

// relation is a matrix over actions: row i has a bit for each j that i leads to.
type relation []uint32

func (r relation) has(i, j int) bool { return r[i]>>j&1 != 0 }
func (r relation) add(i, j int)      { r[i] |= 1 << j }

// closed returns the transitive closure.
func (r relation) closed() relation {
	c := slices.Clone(r)
	for k := range c {
		for i := range c {
			if c.has(i, k) {
				c[i] |= c[k]
			}
		}
	}
	return c
}

func (r relation) acyclic() bool {
	for i, row := range r.closed() {
		if row>>i&1 != 0 {
			return false
		}
	}
	return true
}

// then returns the composition of two relations.
func (r relation) then(o relation) relation {
	c := make(relation, len(r))
	for i := range r {
		for k := range r {
			if r.has(i, k) {
				c[i] |= o[k]
			}
		}
	}
	return c
}

func union(rs ...relation) relation {
	u := make(relation, len(rs[0]))
	for _, r := range rs {
		for i := range r {
			u[i] |= r[i]
		}
	}
	return u
}

// execution fixes the source of each read, the order of writes to each location, and the order of
// the fence.sc.
type execution struct {
	acts   []action
	from   []int    // for each read, its write
	co, sc relation // total orders
}

func (x *execution) relation(f func(i, j int) bool) relation {
	r := make(relation, len(x.acts))
	for i := range r {
		for j := range r {
			if i != j && f(i, j) {
				r.add(i, j)
			}
		}
	}
	return r
}

func (x *execution) writes(i int) bool { return x.acts[i].value != 0 || x.acts[i].thread < 0 }

func (x *execution) program() relation {
	return x.relation(func(i, j int) bool { return i < j && x.acts[i].thread == x.acts[j].thread })
}

func (x *execution) readsFrom() relation {
	return x.relation(func(i, j int) bool { return x.acts[j].reads && x.from[j] == i })
}

// fromReads leads from each read to the writes after the write that it read.
func (x *execution) fromReads() relation {
	return x.relation(func(i, j int) bool { return x.acts[i].reads && x.co.has(x.from[i], j) })
}

func (x *execution) morallyStrong() relation {
	return x.relation(func(i, j int) bool { return x.acts[i].morallyStrong(&x.acts[j]) })
}

func inBoth(a, b relation) relation {
	c := make(relation, len(a))
	for i := range a {
		c[i] = a[i] & b[i]
	}
	return c
}

// observation leads from writes to reads, also through atomics.
func (x *execution) observation() relation {
	direct := inBoth(x.readsFrom(), x.morallyStrong())
	return direct.closed() // only reads and writes can stand between
}

// synchronizes leads from release patterns to acquire patterns that observe them, and from fence.sc
// to later fence.sc, if the two are morally strong.
func (x *execution) synchronizes() relation {
	po, obs, ms := x.program(), x.observation(), x.morallyStrong()
	// A release pattern leads from its first operation to its write, an acquire pattern from its
	// read to its last operation.
	release := x.relation(func(i, j int) bool {
		a, b := &x.acts[i], &x.acts[j]
		return po.has(i, j) && x.writes(j) && b.strong() && (a.fence || a.releases() && a.loc == b.loc)
	})
	acquire := x.relation(func(i, j int) bool {
		a, b := &x.acts[i], &x.acts[j]
		return po.has(i, j) && a.reads && a.strong() && (b.fence || b.acquires() && a.loc == b.loc)
	})
	for i := range x.acts {
		if x.acts[i].releases() {
			release.add(i, i)
		}
		if x.acts[i].acquires() && x.acts[i].reads {
			acquire.add(i, i)
		}
	}
	return union(inBoth(release.then(obs).then(acquire), ms), inBoth(x.sc, ms))
}

// allowed reports whether PTX allows the execution.
func (x *execution) allowed() bool {
	po, rf, fr, ms := x.program(), x.readsFrom(), x.fromReads(), x.morallyStrong()
	base := union(po, x.synchronizes()).closed()
	cause := union(base, x.observation().then(base))
	for i := range x.acts {
		if x.acts[i].thread < 0 {
			cause[i] = 1<<len(x.acts) - 1&^(1<<i) // before the launch
		}
	}
	for i := range x.acts {
		a := &x.acts[i]
		for j := range x.acts {
			b := &x.acts[j]
			if i == j || !cause.has(i, j) || b.thread < 0 {
				continue
			}
			if a.fence || b.fence {
				if a.fence && b.fence && a.order == orderSC && b.order == orderSC && ms.has(i, j) && !x.sc.has(i, j) {
					return false // Fence-SC
				}
				continue
			}
			if a.loc != b.loc {
				continue
			}
			switch {
			case x.writes(i) && x.writes(j) && !x.co.has(i, j):
				return false // Coherence
			case a.reads && rf.has(j, i):
				return false // Causality, from a read
			case x.writes(i) && b.reads && x.co.has(x.from[j], i):
				return false // Causality, to a read
			}
		}
		// Atomicity
		for w := range x.acts {
			if a.reads && x.writes(i) && w != i && x.writes(w) && x.co.has(x.from[i], w) && x.co.has(w, i) && (ms.has(w, i)) {
				return false
			}
		}
	}
	// SC per location
	same := x.relation(func(i, j int) bool {
		return po.has(i, j) && !x.acts[i].fence && !x.acts[j].fence && x.acts[i].loc == x.acts[j].loc
	})
	return union(same, inBoth(union(rf, fr, x.co), ms)).acyclic()
}

// inOrder reports whether stores can take effect at once, in program order, before any read of
// them. The simulator shows no other executions.
func (x *execution) inOrder() bool { return union(x.program(), x.readsFrom(), x.co).acyclic() }
