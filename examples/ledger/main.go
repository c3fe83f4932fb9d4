// Ledger moves money between accounts, in batches, while reports add all of it up. A report that reads
// the accounts page by page takes longer than a batch, so it would see some accounts before and others behind
// a transfer. It reads a snapshot instead, which costs nothing to take and is as the accounts were between two
// batches: every report has the same total.
//
//	go run ./examples/ledger
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/ordered"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Stdout, 1<<18, 20); err != nil {
		log.Fatal("ledger: ", err)
	}
}

// start is what each account has at first.
const start = 1000

// run makes so many reports on so many accounts while transfers go on.
func run(ctx context.Context, w io.Writer, accounts, reports int) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	m, err := ordered.New[uint64, int64](dev, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	ids, amounts := make([]uint64, accounts), make([]int64, accounts)
	for i := range ids {
		ids[i], amounts[i] = uint64(i)*7919, start
	}
	if _, err := m.Build(ctx, ids, amounts); err != nil {
		return err
	}
	return beside(ctx, func(ctx context.Context) error { return transfers(ctx, m, ids) }, func() error {
		for range reports {
			total, n, err := report(ctx, m)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%d accounts have %d\n", n, total)
		}
		return nil
	})
}

// beside runs one thing until another ends.
func beside(ctx context.Context, background func(context.Context) error, front func() error) error {
	within, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- background(within) }()
	err := front()
	cancel()
	if stopped := <-done; !errors.Is(stopped, context.Canceled) {
		err = errors.Join(err, stopped)
	}
	return err
}

// transfers moves an amount between two accounts, again and again. Both sides are in one batch, so that no
// snapshot has one of them only; of one account all operations of a batch count, in their order.
func transfers(ctx context.Context, m *ordered.Map[uint64, int64], ids []uint64) error {
	const pairs = 1 << 10
	ops := make([]weft.Op[uint64, int64], 0, 2*pairs)
	for {
		ops = ops[:0]
		for range pairs {
			from, to, amount := ids[rand.IntN(len(ids))], ids[rand.IntN(len(ids))], rand.Int64N(100)
			ops = append(ops, weft.Op[uint64, int64]{Kind: weft.OpSum, Key: from, Value: -amount},
				weft.Op[uint64, int64]{Kind: weft.OpSum, Key: to, Value: amount})
		}
		if err := m.Apply(ctx, ops, nil); err != nil {
			return err
		}
	}
}

// report adds up all accounts as they are at one moment.
func report(ctx context.Context, m *ordered.Map[uint64, int64]) (total int64, n int, err error) {
	s, err := m.Snapshot(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for page, err := range s.Pages(ctx) {
		if err != nil {
			return 0, 0, err
		}
		for _, amount := range page.Vals {
			total += amount
		}
		n += len(page.Vals)
	}
	return total, n, nil
}
