package bucketmodel

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestHortonSimulation puts random keys into buckets, as in figure 8. It compares the model with
// the keys per primary bucket, and with their places in a Horton table that has capacity for every
// remapped key.
func TestHortonSimulation(t *testing.T) {
	const buckets, tags = 1 << 15, 21
	for _, slots := range []int{1, 2, 4, 8, 16} {
		for _, load := range []float64{.5, .75, .95} {
			t.Run(fmt.Sprintf("%d slots at %g", slots, load), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(slots), 8))
				keys := make([]int, buckets)
				entries := make([][tags]bool, buckets)
				n := int(load * float64(slots*buckets))
				for range n {
					b := random.IntN(buckets)
					keys[b]++
				}
				var remapped, typeB, set, exact float64
				lambda := load * float64(slots)
				for b, x := range keys {
					if x == int(lambda) {
						exact++
					}
					if x <= slots {
						continue
					}
					typeB++
					remapped += float64(x - slots + 1)
					for range x - slots + 1 {
						tag := random.IntN(tags)
						if !entries[b][tag] {
							set++
						}
						entries[b][tag] = true
					}
				}
				h := Horton{slots, load, tags}
				near(t, "buckets of the mean", exact/buckets, Poisson(lambda, int(lambda)), .01)
				near(t, "type B", typeB/buckets, h.TypeB(), .01)
				near(t, "per hit", 1+remapped/float64(n), h.PerHit(), .01)
				near(t, "alias", remapped/buckets/tags, h.Alias(), .002)
				near(t, "entries", set/buckets, h.EntriesSet(), .03)
				if load < Feasible(slots) {
					near(t, "full", float64(fullBuckets(keys, slots, int(remapped)))/buckets, h.Full(), .03)
				}
			})
		}
	}
}

// fullBuckets counts the buckets without a free slot after the given number of keys has been
// remapped to the emptiest buckets.
func fullBuckets(keys []int, slots, remapped int) (full int) {
	for level := range slots {
		for b := range keys {
			if keys[b] == level && remapped > 0 {
				keys[b]++
				remapped--
			}
		}
	}
	for _, x := range keys {
		if x >= slots {
			full++
		}
	}
	return full
}

// cuckoo is a cuckoo table with two functions. For each key it stores only the other bucket, and
// whether the key is in its first.
type cuckoo struct {
	random   *rand.Rand
	slots    int
	balanced bool
	buckets  [][]resident
	second   int // number of keys in their second bucket
	// buckets read by insertions before a key was moved, and number of insertions
	read, inserted int
}

type resident struct {
	other int
	first bool
}

func (c *cuckoo) full(b int) bool { return len(c.buckets[b]) == c.slots }

func (c *cuckoo) put(b, other int, first bool) {
	c.buckets[b] = append(c.buckets[b], resident{other, first})
	if !first {
		c.second++
	}
}

// insert puts a random key into one of its buckets. If both are full, it makes space with the
// fewest moves.
func (c *cuckoo) insert() (ok bool) {
	c.inserted++
	a, b := c.random.IntN(len(c.buckets)), c.random.IntN(len(c.buckets))
	emptier := len(c.buckets[b]) < len(c.buckets[a])
	if c.read++; c.balanced || c.full(a) {
		c.read++
	}
	if !c.full(b) && (c.full(a) || c.balanced && emptier) {
		c.put(b, a, false)
		return true
	}
	const most = 6
	for moves := range most {
		switch {
		case c.makeRoom(a, moves):
			c.put(a, b, true)
			return true
		case c.makeRoom(b, moves):
			c.put(b, a, false)
			return true
		}
	}
	return false
}

// makeRoom frees a slot of a bucket by the given number of moves. It reports whether it has done
// so.
func (c *cuckoo) makeRoom(b, moves int) bool {
	if !c.full(b) || moves == 0 {
		return !c.full(b)
	}
	for i, r := range c.buckets[b] {
		if r.other == b || !c.makeRoom(r.other, moves-1) {
			continue
		}
		if c.full(b) && c.buckets[b][i] == r { // unless other moves have used this slot
			c.buckets[b] = append(c.buckets[b][:i:i], c.buckets[b][i+1:]...)
			if !r.first {
				c.second--
			}
			c.put(r.other, b, !r.first)
		}
		return !c.full(b)
	}
	return false
}

func TestCuckooSimulation(t *testing.T) {
	const slots = 1 << 15
	for _, perBucket := range []int{2, 4, 8, 16} {
		for _, balanced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d slots, balanced %v", perBucket, balanced), func(t *testing.T) {
				c := &cuckoo{random: rand.New(rand.NewPCG(1, uint64(bits.Len(uint(perBucket))))), slots: perBucket, balanced: balanced}
				c.buckets = make([][]resident, slots/perBucket)
				n := 0
				for _, load := range []float64{.5, .8, .9, .95} {
					if perBucket == 2 && load > .85 { // more than two slots can take
						return
					}
					for ; n < int(load*slots); n++ {
						if n == int((load-recent)*slots) {
							c.read, c.inserted = 0, 0
						}
						if !c.insert() {
							t.Fatalf("full at %d of %d", n, slots)
						}
					}
					c.compare(t, float64(n)/slots, n)
				}
			})
		}
	}
}

// recent is the increase in load over which insertions are measured.
const recent = .02

func (c *cuckoo) compare(t *testing.T, load float64, n int) {
	t.Helper()
	perHit := 1 + float64(c.second)/float64(n)
	what := fmt.Sprintf("at %.2f: per hit", load)
	if c.balanced { // .03 near the maximum load of four slots, .01 elsewhere
		near(t, what, perHit, Balanced{c.slots, load}.PerHit(), .032*perHit)
		return
	}
	model, full := FirstFit{c.slots, load}, 0.
	for b := range c.buckets {
		if c.full(b) {
			full++
		}
	}
	near(t, what, perHit, model.PerHit(), .0125*perHit)
	before := FirstFit{c.slots, load - recent/2}
	near(t, fmt.Sprintf("at %.2f: per insert", load), float64(c.read)/float64(c.inserted), before.PerInsert(), .04)
	near(t, fmt.Sprintf("at %.2f: full", load), full/float64(len(c.buckets)), model.Full(), .02)
}
