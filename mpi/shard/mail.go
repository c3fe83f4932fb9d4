package shard

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/mpi/comm"
)

// Rows is a batch of rows of a job. Key columns and other columns have one length.
type Rows struct {
	Keys    []column.Column
	Columns []column.Column // values of Group, or the columns of a row that Join yields
}

// roundBytes is the number of bytes that a rank gathers for a round of mail: with 64 ranks 512 KiB
// for each. Tests lower it.
var roundBytes = 32 << 20

// mail is bytes on their way to other ranks, in rounds. All ranks send the same number of rounds.
type mail struct {
	r    *Ranks
	sign signature
	opts uint64   // a hash of options, which are the same on all ranks
	out  [][]byte // by rank
}

func newMail(r *Ranks, s signature, opts ...any) *mail {
	return &mail{r: r, sign: s, opts: hashOf(opts...), out: make([][]byte, r.size)}
}

// hashOf returns a hash of options, as text.
func hashOf(opts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", opts)
	return h.Sum64()
}

// round sends all waiting mail, and returns the mail of each rank for this one, in memory of its
// own. An error of any rank is returned on all. more says whether this rank has another round. The
// result says whether any rank has.
func (m *mail) round(
	ctx context.Context, more bool, failure error,
) (in [][]byte, _ bool, err error) {
	r := m.r
	clear(r.head)
	r.head[headArg] = m.opts
	if more {
		r.head[headState] = stateMore
	}
	send, sent := buffer[byte](&r.exchange, valsOut, m.bytes())[:0], make([]int64, r.size)
	for rank, b := range m.out {
		send, sent[rank], m.out[rank] = append(send, b...), int64(len(b)), b[:0]
		r.head[headWords+rank] = uint64(len(b))
	}
	if err := r.agree(ctx, m.sign, failure); err != nil {
		return nil, false, err
	}
	if err := r.sameArg(m.sign); err != nil {
		return nil, false, err
	}
	got, sum := make([]int64, r.size), int64(0)
	for rank := range got {
		got[rank] = int64(r.word(rank, headWords+r.rank))
		sum += got[rank]
	}
	recv := raw(make([]uint64, (sum+7)/8))[:sum]
	if err := r.comm.AllToAllV(context.Background(), comm.Host(send), sent, comm.Host(recv),
		got); err != nil {
		return nil, false, r.commError(err)
	}
	for _, n := range got {
		in, recv = append(in, recv[:n:n]), recv[n:]
	}
	return in, r.anyRank(stateMore), nil
}

// bytes returns the number of bytes that wait for a round.
func (m *mail) bytes() (n int) {
	for _, b := range m.out {
		n += len(b)
	}
	return n
}
