package commtest

import (
	"context"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
)

// broken is a Comm with one fault.
type broken struct {
	comm.Comm
	fault string
}

func (b broken) Barrier(ctx context.Context) error {
	if b.fault == "passes barriers" {
		return nil
	}
	return b.Comm.Barrier(ctx)
}

func (b broken) AllGather(ctx context.Context, send, recv []uint64) error {
	err := b.Comm.AllGather(ctx, send, recv)
	if b.fault == "swaps values" && len(send) > 2 && err == nil {
		recv[0], recv[1] = recv[1], recv[0]
	}
	return err
}

func (b broken) AllReduce(ctx context.Context, op comm.Op, values []uint64) error {
	if b.fault == "takes minimums for maximums" && op == comm.Min {
		op = comm.Max
	}
	return b.Comm.AllReduce(ctx, op, values)
}

func (b broken) AllReduceFloat(ctx context.Context, op comm.Op, values []float64) error {
	err := b.Comm.AllReduceFloat(ctx, op, values)
	if b.fault == "loses a bit of sums" && op == comm.Sum && b.Rank() == 1 && len(values) > 0 {
		values[len(values)-1] *= 1 + 1e-15
	}
	return err
}

func (b broken) AllToAllV(ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) error {
	err := b.Comm.AllToAllV(ctx, send, sendBytes, recv, recvBytes)
	if recv.Stream == nil && recv.Len() > slack && err == nil {
		switch b.fault {
		case "loses a byte":
			recv.Host[0]++
		case "writes after the parts":
			recv.Host[recv.Len()-slack] = 0
		}
	}
	return err
}

func (b broken) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	if b.fault == "forgets keys" {
		key = 0
	}
	return b.Comm.Split(ctx, color, key)
}

// TestFaults checks that the tests find each fault.
func TestFaults(t *testing.T) {
	for fault, body := range map[string]Body{
		"passes barriers":             barrier,
		"swaps values":                allGather,
		"takes minimums for maximums": allReduce,
		"loses a bit of sums":         allReduceFloat,
		"loses a byte":                allToAllV,
		"writes after the parts":      allToAllV,
		"forgets keys":                split,
	} {
		for name, of := range map[string]string{"": "", fault: fault} {
			err := local.Run(t.Context(), 5, func(ctx context.Context, c comm.Comm) error {
				return body(ctx, broken{c, of})
			})
			if (err != nil) != (of != "") {
				t.Errorf("an engine with the fault %q passes with %v", name, err)
			}
		}
	}
}
