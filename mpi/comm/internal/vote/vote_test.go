package vote_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// votes returns the votes for an exchange in which rank i sends sends[i][j] bytes to rank j, and
// expects wants[i][j] bytes from it.
func votes(t *testing.T, sends, wants [][]int64) []vote.Vote {
	all := make([]vote.Vote, len(sends))
	for rank := range all {
		buf := comm.Host(make([]byte, 1000))
		var err error
		if all[rank], err = vote.Parts(t.Context(), rank, len(all), buf, sends[rank], buf, wants[rank]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestParts checks the votes of exchanges in which all numbers match, and of exchanges in which one
// number differs.
func TestParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		size := 1 + random.IntN(6)
		sends, wants := make([][]int64, size), make([][]int64, size)
		for i := range size {
			sends[i], wants[i] = make([]int64, size), make([]int64, size)
		}
		for i := range size {
			for j := range size {
				sends[i][j] = random.Int64N(100)
				wants[j][i] = sends[i][j]
			}
		}
		all := votes(t, sends, wants)
		if err := vote.Check(all, nil); err != nil {
			t.Fatalf("exchange %d: %v", sends, err)
		}
		largest := slices.Max(slices.Concat(sends...))
		if total, part := vote.MaxBytes(all); part != int(largest) || total < part || total > 100*size {
			t.Fatalf("Most of exchange %d is %d, %d", sends, total, part)
		}
		wants[random.IntN(size)][random.IntN(size)]++
		if err := vote.Check(votes(t, sends, wants), nil); err == nil {
			t.Fatalf("exchange %d is taken for %d", sends, wants)
		}
		// A plain sum would not detect that two ranks swap what they send.
		if size > 1 && sends[0][1] != sends[1][0] {
			sends[0][1], sends[1][0] = sends[1][0], sends[0][1]
			if err := vote.Check(votes(t, sends, wants), nil); err == nil {
				t.Fatalf("exchange %d is taken for %d", sends, wants)
			}
		}
	}
}

func TestCount(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fine, _ := vote.New(t.Context(), vote.Barrier, 0, nil)
	ended, own := vote.New(ctx, vote.Barrier, 0, nil)
	if !errors.Is(own, context.Canceled) {
		t.Errorf("New with an ended context returns %v", own)
	}
	wrong, own := vote.Reduce(t.Context(), vote.AllReduce, comm.Max+1, 3)
	if own == nil {
		t.Error("Reduce by an operation that is none returns no error")
	}
	sum, _ := vote.Reduce(t.Context(), vote.AllReduce, comm.Sum, 3)
	most, _ := vote.Reduce(t.Context(), vote.AllReduce, comm.Max, 3)
	for _, test := range []struct {
		votes []vote.Vote
		peer  bool
		want  string
	}{
		{[]vote.Vote{fine, ended}, true, "Barrier of rank 1: its context has ended"},
		{[]vote.Vote{sum, wrong}, true, "AllReduce of rank 1: its arguments are wrong"},
		{[]vote.Vote{fine, sum}, false, "rank 0 Barrier, rank 1 AllReduce Sum of 3 values"},
		{[]vote.Vote{sum, most}, false, "rank 0 AllReduce Sum of 3 values, rank 1 AllReduce Max of 3 values"},
	} {
		err := vote.Check(test.votes, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, comm.ErrPeer) != test.peer {
			t.Errorf("Count returns %v, want %q", err, test.want)
		}
		if err := vote.Check(test.votes, context.Canceled); err != context.Canceled {
			t.Errorf("Count of a rank with an error of its own returns %v", err)
		}
	}
}

func TestCombine(t *testing.T) {
	for op, want := range map[comm.Op][]uint64{comm.Sum: {0, 4}, comm.Min: {1, 1}, comm.Max: {math.MaxUint64, 3}} {
		values := []uint64{1, 3}
		vote.Combine(op, values, []uint64{math.MaxUint64, 1})
		if !slices.Equal(values, want) {
			t.Errorf("%s is %d, want %d", op, values, want)
		}
	}
}

// TestShare divides values into shares, which must be consecutive and not longer than the first.
func TestShare(t *testing.T) {
	for n := range 20 {
		for size := 1; size < 9; size++ {
			end := 0
			_, first := vote.Share(n, 0, size)
			for rank := range size {
				lo, hi := vote.Share(n, rank, size)
				if lo != end || hi < lo || hi-lo > first {
					t.Fatalf("Share of %d values: rank %d of %d has [%d, %d)", n, rank, size, lo, hi)
				}
				end = hi
			}
			if end != n {
				t.Fatalf("shares of %d values of %d ranks end at %d", n, size, end)
			}
		}
	}
}

func TestStarts(t *testing.T) {
	if at := vote.Starts([]int64{3, 0, 5, 7}); !slices.Equal(at, []int64{0, 3, 3, 8}) {
		t.Errorf("Starts returns %d", at)
	}
}
