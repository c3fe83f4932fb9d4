//go:build linux

package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
)

// content is what a store holds.
type content map[uint64]uint64

// change is a call that changes a store. The zero value is Clear; without Vals it is Delete.
type change struct{ Keys, Vals []uint64 }

func randomChange(rng *rand.Rand) (c change) {
	n := 1 + rng.IntN(12)
	if rng.IntN(10) == 0 {
		n = 300 // more than a block
	}
	what := rng.IntN(40)
	for range n {
		if what > 0 {
			c.Keys = append(c.Keys, rng.Uint64N(400))
		}
		if what > 12 {
			c.Vals = append(c.Vals, rng.Uint64())
		}
	}
	return c
}

// apply returns the content after the change.
func (c change) apply(to content) content {
	if c.Keys == nil {
		return content{}
	}
	to = maps.Clone(to)
	for i, k := range c.Keys {
		if c.Vals == nil {
			delete(to, k)
		} else {
			to[k] = c.Vals[i]
		}
	}
	return to
}

// story records what a guest did with a store, by positions in the log of its disk.
type story struct {
	states      []state
	first       int      // the position from which on there is a file system
	checkpoints [][2]int // ranges of positions in which a checkpoint ended
	logBytes    int64    // size of the log of the store after the last change
	changes     int
	recovered   int // times that Open found a change that had not returned
}

// state is the content of a store after a change.
type state struct {
	content
	begun    int // position when the change began; it may be on the disk from the next one on
	returned int // position when the change had returned, or never
}

const never = math.MaxInt

// newStory begins with a new disk.
func newStory() *story { return &story{states: []state{{content: content{}, begun: -1}}} }

// after returns the story that a guest continues after a power cut at position at.
func (s *story) after(at int) *story {
	next := &story{}
	for _, old := range s.states {
		if old.begun >= at {
			break
		}
		returned := never
		if old.returned <= at {
			returned = 0
		}
		next.states = append(next.states, state{old.content, -1, returned})
	}
	return next
}

// acknowledged returns the index of the state after the last change that has returned.
func (s *story) acknowledged() int {
	i := len(s.states) - 1
	for s.states[i].returned == never {
		i--
	}
	return i
}

// begin records that a change begins.
func (s *story) begin(at int, c change) {
	last := s.states[len(s.states)-1].content
	s.states = append(s.states, state{c.apply(last), at, never})
	s.changes++
}

// finish records that the change has returned. The log of the store has logBytes bytes now, fewer
// than before if a checkpoint has replaced it.
func (s *story) finish(at int, logBytes int64) {
	last := len(s.states) - 1
	s.states[last].returned = at
	if logBytes < s.logBytes {
		s.checkpoints = append(s.checkpoints, [2]int{max(s.first, s.states[max(0, last-12)].begun), at})
	}
	s.logBytes = logBytes
}

// open compares what Open found with the states that the store may have. From then on, the store
// has this state.
func (s *story) open(at int, found content) error {
	last := s.acknowledged()
	for i := last; i < len(s.states); i++ {
		if maps.Equal(s.states[i].content, found) {
			if i > last {
				s.recovered++
			}
			s.states = append(s.states, state{found, at - 1, at})
			return nil
		}
	}
	for i := last - 1; i >= 0; i-- {
		if maps.Equal(s.states[i].content, found) {
			return fmt.Errorf("lost the last %d changes that had returned", last-i)
		}
	}
	return fmt.Errorf("the store has %d pairs, which it never had: the last change left %d pairs",
		len(found), len(s.states[last].content))
}

// point returns a position for a power cut. It favors flushes and checkpoints.
func (s *story) point(log []entry, rng *rand.Rand) int {
	lo, hi := s.first, len(log)
	switch rng.IntN(3) {
	case 0:
		if n := len(s.checkpoints); n > 0 {
			c := s.checkpoints[rng.IntN(n)]
			lo, hi = c[0], c[1]
		}
	case 1:
		at := lo + rng.IntN(hi-lo+1)
		for at < hi && log[at].data != nil {
			at++
		}
		lo, hi = max(lo, at-1), min(hi, at+2)
	}
	return lo + rng.IntN(hi-lo+1)
}
