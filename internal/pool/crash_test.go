package pool

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/pm"
)

// stores is a persistence domain. A crash keeps all fenced words, and any subset of the later
// stores, in their order.
type stores struct {
	durable []uint64
	pending [][2]uint64 // word, value
	fencing func()      // called before each fence
}

func (d *stores) Load(at uint64) uint64 {
	for _, s := range slices.Backward(d.pending) {
		if s[0] == at {
			return s[1]
		}
	}
	return d.durable[at]
}

func (d *stores) Store(at, v uint64) { d.pending = append(d.pending, [2]uint64{at, v}) }

func (d *stores) CompareAndSwap(at, old, v uint64) bool {
	if d.Load(at) != old {
		return false
	}
	d.Store(at, v)
	return true
}

func (d *stores) Fence() {
	if d.fencing != nil {
		d.fencing()
	}
	for _, s := range d.pending {
		d.durable[s[0]] = s[1]
	}
	d.pending = nil
}

// forEachCrash calls check with the memory that each possible crash would leave now. If too many
// crashes are possible, it visits many random ones instead.
func (d *stores) forEachCrash(rng *rand.Rand, check func(crashed *stores)) (states int) {
	const maxExhaustive, maxSampled = 10, 2000
	n := 1 << min(len(d.pending), maxExhaustive+1)
	if len(d.pending) > maxExhaustive {
		n = maxSampled
	}
	for i := range n {
		kept := uint64(i)
		if n == maxSampled {
			kept = rng.Uint64()
			if i%2 == 0 {
				kept |= rng.Uint64()
			}
		}
		undo := make(map[uint64]uint64)
		for j, s := range d.pending {
			if kept>>j&1 != 0 {
				if _, saved := undo[s[0]]; !saved {
					undo[s[0]] = d.durable[s[0]]
				}
				d.durable[s[0]] = s[1]
			}
		}
		check(&stores{durable: d.durable})
		for at, v := range undo {
			d.durable[at] = v
		}
	}
	return n
}

// A crash during a commit leaves the old superblock or the new one. With the new one it also leaves
// everything stored before it.
func TestCrashInCommit(t *testing.T) {
	const data = DataStart/pm.Word + 100
	rng := rand.New(rand.NewPCG(1, 2))
	d := &stores{durable: make([]uint64, testSize/pm.Word)}
	p, err := Format(memoryOf(d), sample())
	if err != nil {
		t.Fatal(err)
	}
	states := 0
	// by generation: superblock that a crash may leave
	legal := map[uint64]Superblock{2: p.Superblock()}
	explore := func() {
		states += d.forEachCrash(rng, func(left *stores) {
			reopened, err := OpenMemory(memoryOf(left))
			if err != nil {
				t.Fatalf("a crash leaves no superblock: %v", err)
			}
			s := reopened.Superblock()
			if want, ok := legal[s.Generation]; !ok || s != want {
				t.Fatalf("a crash leaves %+v", s)
			}
			if s.Generation > 2 && left.durable[data] < s.Generation {
				t.Fatalf("a crash leaves generation %d without what was stored before it", s.Generation)
			}
		})
	}
	d.fencing = explore
	level := Level{Offset: DataStart + 8*Page, Length: 8 * Page, State: Live}
	for _, change := range []func(*Superblock){
		func(s *Superblock) { s.Epoch++ },
		func(s *Superblock) { s.Top, s.Levels[3], s.Levels[1].State = 3, level, Draining },
		func(s *Superblock) { s.Bottom, s.Levels[1] = 2, Level{} },
		func(s *Superblock) { s.Areas[0].Used++ },
		func(s *Superblock) { s.Clean = true; s.Tool = "somebody else"; s.Epoch = maxCount },
	} {
		old := p.Superblock()
		next := old
		change(&next)
		next.Generation++
		legal = map[uint64]Superblock{old.Generation: old, next.Generation: next}
		p.Memory().Store(data, next.Generation)
		if err := p.Commit(change); err != nil {
			t.Fatal(err)
		}
		legal = map[uint64]Superblock{next.Generation: next}
		explore()
	}
	t.Logf("%d crash states", states)
	if states < 1000 {
		t.Errorf("only %d crash states", states)
	}
}

var length = make([]byte, testSize)

func memoryOf(d *stores) *pm.Memory { return pm.New(length, d) }
