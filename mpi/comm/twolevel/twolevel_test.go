package twolevel_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/twolevel"
)

func TestConformance(t *testing.T) {
	for _, of := range []struct{ nodes, perNode int }{{1, 3}, {3, 1}, {2, 2}, {3, 4}} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			commtest.Run(t, func(t *testing.T, body commtest.Body) {
				err := local.Run(t.Context(), of.nodes*of.perNode, func(ctx context.Context, c comm.Comm) error {
					two, err := twolevel.New(ctx, c, of.perNode)
					if err == nil {
						err = body(ctx, two)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// counted counts the messages of a Comm.
type counted struct {
	comm.Comm
	messages *int
}

func (c counted) AllToAllV(
	ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64,
) error {
	*c.messages += c.Size()
	return c.Comm.AllToAllV(ctx, send, sendBytes, recv, recvBytes)
}

func (c counted) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	part, err := c.Comm.Split(ctx, color, key)
	return counted{part, c.messages}, err
}

// Small messages are exchanged in two steps, and large ones directly. Both arrive.
func TestSteps(t *testing.T) {
	const nodes, perNode = 6, 4
	for _, tt := range []struct{ part, messages int }{{100, nodes + perNode}, {300 << 10, nodes * perNode}} {
		err := local.Run(t.Context(), nodes*perNode, func(ctx context.Context, c comm.Comm) error {
			messages := 0
			two, err := twolevel.New(ctx, counted{c, &messages}, perNode)
			if err != nil {
				return err
			}
			size := c.Size()
			text := func(from, to int) []byte {
				rng := rand.New(rand.NewPCG(uint64(from), uint64(to)))
				return bytes.Repeat([]byte{byte(from*size + to)}, tt.part+rng.IntN(tt.part/10))
			}
			var send, want []byte
			out, in := make([]int64, size), make([]int64, size)
			for peer := range size {
				send, want = append(send, text(c.Rank(), peer)...), append(want, text(peer, c.Rank())...)
				out[peer], in[peer] = int64(len(text(c.Rank(), peer))), int64(len(text(peer, c.Rank())))
			}
			for range 2 {
				got := make([]byte, len(want))
				if err := two.AllToAllV(ctx, comm.Host(send), out, comm.Host(got), in); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("rank %d receives other bytes", c.Rank())
				}
			}
			if messages != 2*tt.messages {
				return fmt.Errorf("%d messages of about %d bytes, want %d", messages, tt.part, 2*tt.messages)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Nodes with different numbers of ranks are an error on all ranks.
func TestUneven(t *testing.T) {
	err := local.Run(t.Context(), 5, func(ctx context.Context, c comm.Comm) error {
		for _, perNode := range []int{0, -1, 2, 6} {
			if _, err := twolevel.New(ctx, c, perNode); err == nil {
				return fmt.Errorf("5 ranks cannot fill nodes of %d", perNode)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
