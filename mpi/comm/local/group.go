package local

import (
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// abort is the state that a group shares with the groups that Split makes from it.
type abort struct {
	once sync.Once
	done chan struct{} // closed by Abort
}

// entered reports whether a rank has aborted.
func (a *abort) entered() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// group is the state that its ranks share. A call has two barriers. Before the first barrier a rank
// publishes its vote and its buffers. Between the barriers it reads what other ranks have
// published. After the second barrier it may change its buffers.
type group struct {
	abort *abort

	mu      sync.Mutex
	arrived int           // number of ranks at the barrier
	pass    chan struct{} // closed when all ranks have arrived
	readers int           // number of ranks between the barriers of a call
	idle    sync.Cond     // signals that readers is 0

	// Successive calls alternate between the two elements, so that a rank that begins the next call
	// does not overwrite what other ranks still read.
	votes [2][]vote.Vote
	slots [2][]slot
}

// slot holds what a rank shows to the other ranks during a call, besides its vote. A call sets only
// the fields that it needs.
type slot struct {
	words  []uint64
	floats []float64
	send   comm.Buf
	starts []int64 // offsets of the parts in send
	// written is recorded once send is written, and read once the rank has read all parts. A nil
	// event has already occurred.
	written, read *device.Event
	color         int
	key           int

	// These are written between the barriers, and read after the second one.
	share any    // the rank's combined share of a reduction
	split *group // new group, if the rank is its first
}

func newGroup(n int, a *abort) *group {
	g := &group{abort: a, pass: make(chan struct{})}
	g.idle.L = &g.mu
	for i := range g.votes {
		g.votes[i], g.slots[i] = make([]vote.Vote, n), make([]slot, n)
	}
	return g
}

func (g *group) barrier() error {
	if g.abort.entered() {
		return comm.ErrAborted
	}
	g.mu.Lock()
	pass := g.pass
	if g.arrived++; g.arrived == len(g.votes[0]) {
		g.arrived, g.pass = 0, make(chan struct{})
		close(pass)
	}
	g.mu.Unlock()
	select {
	case <-pass:
		return nil
	case <-g.abort.done:
		return comm.ErrAborted
	}
}

// read calls f, which reads buffers of other ranks. If the group is aborted, it does not call f.
func (g *group) read(f func() error) error {
	g.mu.Lock()
	if g.abort.entered() {
		g.mu.Unlock()
		return comm.ErrAborted
	}
	g.readers++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		if g.readers--; g.readers == 0 {
			g.idle.Broadcast()
		}
		g.mu.Unlock()
	}()
	return f()
}

// leave waits, after an abort, until no rank reads buffers of other ranks. It waits at most for a
// copy in progress, because no rank starts to read after an abort.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.readers > 0 {
		g.idle.Wait()
	}
}
