package local

import (
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// abort is shared by a group and the groups that Split makes of it.
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

// group is the shared state of its ranks.
//
// A call has two barriers. Before the first one a rank publishes its vote and its buffers. Between
// them it reads those of its peers. A rank that is past the second barrier may change its buffers.
type group struct {
	abort *abort

	mu      sync.Mutex
	arrived int           // at the barrier
	pass    chan struct{} // closed when all ranks have arrived
	readers int           // ranks between the barriers of a call
	idle    sync.Cond     // readers is 0

	// Calls use the two of each in turn: a rank that begins the next call must not overwrite
	// what its peers still read.
	votes [2][]vote.Vote
	slots [2][]slot
}

// slot is the published state of a rank beside its vote: the fields that its call needs.
type slot struct {
	words  []uint64
	floats []float64
	send   comm.Buf
	starts []int64 // where parts begin in send
	// written marks that send has been written, read that its rank has read all parts. nil: that
	// is done.
	written, read *device.Event
	color         int
	key           int

	// Written between the barriers, and read after the second one.
	share any    // the combined share of a reduction
	split *group // made by the first rank of it
}

func newGroup(n int, a *abort) *group {
	g := &group{abort: a, pass: make(chan struct{})}
	g.idle.L = &g.mu
	for i := range g.votes {
		g.votes[i], g.slots[i] = make([]vote.Vote, n), make([]slot, n)
	}
	return g
}

// barrier waits until all ranks have arrived.
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

// read runs f, which reads buffers of peers, unless the group is aborted.
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

// leave waits, after an abort, until no rank reads the buffers of another. The wait is as long as a
// copy takes, since no rank begins to read after an abort.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.readers > 0 {
		g.idle.Wait()
	}
}
