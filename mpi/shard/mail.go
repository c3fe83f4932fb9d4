package shard

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/mpi/comm"
)

// Rows is a batch of rows for a job. All columns must have the same length.
type Rows struct {
	Keys    []column.Column
	Columns []column.Column // values for Group, or columns that Join yields
}

// roundBytes is the number of bytes that a rank collects for a round of mail. With 64 ranks, each
// message has 512 KiB. Tests lower it.
var roundBytes = 32 << 20

// mail collects bytes for other ranks and sends them in rounds. All ranks send the same number of
// rounds.
type mail struct {
	r    *Ranks
	sign signature
	opts uint64   // hash of options, which must be equal on all ranks
	out  [][]byte // bytes for each rank
}

func newMail(r *Ranks, s signature, opts ...any) *mail {
	return &mail{r: r, sign: s, opts: hashOf(opts...), out: make([][]byte, r.size)}
}

func hashOf(opts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", opts)
	return h.Sum64()
}

// round sends the collected mail, and returns the mail from each rank in newly allocated memory. If
// any rank fails, all ranks return an error. more reports whether this rank has another round. The
// boolean result reports whether any rank has one.
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

func (m *mail) bytes() (n int) {
	for _, b := range m.out {
		n += len(b)
	}
	return n
}
