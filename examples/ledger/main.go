// Ledger moves money between accounts, in batches, while reports sum them up. A report that read
// the accounts page by page would take longer than a batch. It would see some accounts before and
// others after a transfer. Instead it reads a snapshot, which costs nothing to take and shows the
// accounts between two batches: every report has the same total.
//
// The accounts are in a durable store. Run it twice with the same folder, or kill it: no transfer
// is lost, and none is there by half.
//
//	go run ./examples/ledger accounts
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
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/ordered"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: ledger FOLDER")
	}
	if err := run(context.Background(), os.Stdout, os.Args[1], 1<<18, 20); err != nil {
		log.Fatal("ledger: ", err)
	}
}

// start is the initial balance of each account.
const start = 1000

// run makes a number of reports while transfers continue.
func run(ctx context.Context, w io.Writer, folder string, accounts, reports int) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	empty := func() (*ordered.Map[uint64, int64], error) { return ordered.New[uint64, int64](dev, nil) }
	m, err := durable.Open(ctx, folder, empty, durable.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	ids, amounts := make([]uint64, accounts), make([]int64, accounts)
	for i := range ids {
		ids[i], amounts[i] = uint64(i)*7919, start
	}
	if m.Len() == 0 { // the first run
		if _, err := m.Build(ctx, ids, amounts); err != nil {
			return err
		}
	}
	return runBoth(ctx, func(ctx context.Context) error { return transfers(ctx, m, ids) }, func() error {
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

// runBoth runs one function until another returns.
func runBoth(ctx context.Context, background func(context.Context) error, front func() error) error {
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

// transfers moves an amount between two accounts, repeatedly. Both sides are in one batch, so no
// snapshot has only one of them. All operations of a batch on one account apply, in order.
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

// report sums up all accounts at one moment.
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
