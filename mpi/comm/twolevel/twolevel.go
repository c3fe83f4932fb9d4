// Package twolevel exchanges small messages between many ranks in two steps: first within nodes,
// then between nodes. In the second step, a rank exchanges with the ranks that have the same number
// in other nodes. With P nodes of Q ranks, a rank sends P+Q messages instead of P·Q, and messages
// between nodes are Q times as long. Every byte is copied three more times, so large messages are
// sent directly.
package twolevel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// minMessage is the mean message length for a direct exchange. From this length on, the bandwidth
// of a network bounds an exchange, and not the number of messages.
const minMessage = 256 << 10

// ranks implements comm.Comm.
type ranks struct {
	comm.Comm
	node, rail comm.Comm // ranks of this node; ranks with this rank's number in all nodes
	votes      []vote.Vote
	buf        [3][]byte // memory that exchanges reuse
	closed     bool
}

// New returns a Comm with the ranks of base, which must be numbered node by node, perNode on each
// node. New is collective. The Comm owns base: its Close closes base. With one node, or one rank
// per node, New returns base itself.
func New(ctx context.Context, base comm.Comm, perNode int) (comm.Comm, error) {
	if perNode < 1 || base.Size()%perNode != 0 {
		return nil, fmt.Errorf("twolevel: %d ranks cannot fill nodes of %d", base.Size(), perNode)
	}
	if perNode == 1 || perNode == base.Size() {
		return base, nil
	}
	node, err := base.Split(ctx, base.Rank()/perNode, base.Rank())
	if err != nil {
		return nil, err
	}
	rail, err := base.Split(ctx, base.Rank()%perNode, base.Rank())
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return &ranks{Comm: base, node: node, rail: rail, votes: make([]vote.Vote, base.Size())}, nil
}

// AllToAllV implements comm.Comm.
func (r *ranks) AllToAllV(
	ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64,
) error {
	if r.closed {
		// returns the error of a closed Comm
		return r.Comm.AllToAllV(ctx, send, sendBytes, recv, recvBytes)
	}
	v, own := vote.Parts(ctx, r.Rank(), r.Size(), send, sendBytes, recv, recvBytes)
	onDevice := uint64(0)
	if send.Stream != nil || recv.Stream != nil {
		onDevice = 1
	}
	mine := append(slices.Clone(words([]vote.Vote{v})), onDevice)
	all := make([]uint64, len(mine)*r.Size())
	if err := r.Comm.AllGather(context.WithoutCancel(ctx), mine, all); err != nil {
		return errors.Join(own, err)
	}
	for i := range r.votes {
		part := all[i*len(mine):][:len(mine)]
		copy(words(r.votes[i:i+1]), part)
		onDevice |= part[vote.Words]
	}
	if err := vote.Check(r.votes, own); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if total, _ := vote.MaxBytes(r.votes); onDevice != 0 || total/r.Size() >= minMessage {
		return r.Comm.AllToAllV(ctx, send, sendBytes, recv, recvBytes)
	}
	return r.exchange(ctx, send.Host, sendBytes, recv, recvBytes)
}

func words(v []vote.Vote) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*vote.Words)
}

// exchange sends to each rank j of the node the parts for rank j of every node. Rank j then
// forwards them to those ranks. The bytes that arrive from a node are in the order of its ranks, so
// they are received in place.
func (r *ranks) exchange(
	ctx context.Context, send []byte, sendBytes []int64, recv comm.Buf, recvBytes []int64,
) error {
	perNode, nodes := r.node.Size(), r.rail.Size()
	sizes, toNode, fromNode := make([]uint64, perNode*r.Size()), make([]int64, perNode), make([]int64, perNode)
	mine := make([]uint64, r.Size())
	for to, n := range sendBytes {
		mine[to] = uint64(n)
	}
	if err := r.node.AllGather(ctx, mine, sizes); err != nil {
		return err
	}
	starts := vote.Starts(sendBytes)
	out := r.buf[0][:0]
	for j := range perNode {
		before := len(out)
		for m := range nodes {
			to := m*perNode + j
			out = append(out, send[starts[to]:][:sendBytes[to]]...)
		}
		toNode[j] = int64(len(out) - before)
	}
	// size returns the length of the part that rank i of this node sends to the rank with this
	// rank's number in node m.
	size := func(i, m int) int { return int(sizes[i*r.Size()+m*perNode+r.node.Rank()]) }
	total := 0
	for i := range fromNode {
		for m := range nodes {
			fromNode[i] += int64(size(i, m))
		}
		total += int(fromNode[i])
	}
	in := slices.Grow(r.buf[1][:0], total)[:total]
	r.buf[0], r.buf[1] = out, in
	if err := r.node.AllToAllV(ctx, comm.Host(out), toNode, comm.Host(in), fromNode); err != nil {
		return err
	}
	// Reorder the parts: they arrive by rank, then by node, and are sent by node, then by rank.
	next := vote.Starts(fromNode)
	onward, toRail, fromRail := r.buf[2][:0], make([]int64, nodes), make([]int64, nodes)
	for m := range nodes {
		before := len(onward)
		for i := range perNode {
			n := int64(size(i, m))
			onward = append(onward, in[next[i]:][:n]...)
			next[i] += n
		}
		toRail[m] = int64(len(onward) - before)
		for i := range perNode {
			fromRail[m] += recvBytes[m*perNode+i]
		}
	}
	r.buf[2] = onward
	return r.rail.AllToAllV(ctx, comm.Host(onward), toRail, recv, fromRail)
}

// Close implements comm.Comm.
func (r *ranks) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return errors.Join(r.node.Close(), r.rail.Close(), r.Comm.Close())
}
