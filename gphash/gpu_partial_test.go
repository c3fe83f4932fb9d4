package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// A call of several atomic batches that meets the loss of its GPU returns the number of operations
// in finished batches. These are done, the interrupted batch is done as a whole or not at all, and
// no later batch is done. A batch that was to run again after a growth counts as done and failed.
// For single operations the error counts no operation of the interrupted chunk, and each of these
// may be done.
func TestPartialErrorOfALoss(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	unit = imageUnit // the log has one unit, which determines the size of batches
	for _, m := range []struct {
		name  string
		o     Options
		seeds int
	}{
		{"atomic", Options{AtomicBatch: 40}, 6},
		{"atomic, with a tail", Options{AtomicBatch: 40, AtomicTail: 100}, 6},
		{"single operations", Options{}, 3},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			// calls with finished batches, and interrupted batches that were done or undone
			nFinished, nWhole, nUndone := 0, 0, 0
			for seed := range uint64(m.seeds) {
				tr := &lossTrial{}
				o := lossShapes[seed%3]
				o.AtomicBatch, o.AtomicTail = m.o.AtomicBatch, m.o.AtomicTail
				tr.open(t, o, seed, sim.Options{Domain: &tr.fuse})
				tr.fuse.remaining.Store(int64(1 + tr.rng.IntN(9000)))
				n, batch := 400, 1
				if l := tr.x.engine.redo; l != nil {
					batch = l.capacity()
					n = batch * 5 / 2
				}
				p, found := longPut(t, tr, n)
				if p == nil {
					continue // the call ended before the loss
				}
				if m.o.AtomicBatch == 0 {
					if p.Done != 0 || p.Failed != 0 {
						t.Errorf("seed %d: %+v of a chunk that was cut short", seed, *p)
					}
					continue
				}
				done, end := p.Done-p.Failed, min(p.Done-p.Failed+batch, n)
				if done%batch != 0 || done >= n || p.Failed != 0 && p.Done != end {
					t.Fatalf("seed %d: %+v of batches of %d", seed, *p, batch)
				}
				nPresent := bytes.Count(found[done:end], []byte{1})
				switch {
				case bytes.IndexByte(found[:done], 0) >= 0:
					t.Errorf("seed %d: an operation is not there, of %d that are done", seed, done)
				case nPresent > 0 && nPresent < end-done:
					t.Errorf("seed %d: %d operations are there of a batch of %d", seed, nPresent, end-done)
				case bytes.IndexByte(found[end:], 1) >= 0:
					t.Errorf("seed %d: an operation behind the batch under way is there, %d were done", seed, done)
				}
				if done > 0 {
					nFinished++
				}
				if nPresent > 0 {
					nWhole++
				} else {
					nUndone++
				}
			}
			if m.o.AtomicBatch > 0 && (nFinished == 0 || nUndone == 0) {
				t.Errorf("%d calls had finished batches; of those under way %d were there and %d gone", nFinished, nWhole, nUndone)
			}
		})
	}
}

// longPut inserts n keys in one call that should meet the loss of its GPU. It returns the call's
// error, or nil without a loss, and which keys exist afterwards.
func longPut(t *testing.T, tr *lossTrial, n int) (p *weft.PartialError, found []byte) {
	t.Helper()
	var keys, values []byte
	for i := range n {
		keys = append(keys, tr.key(i)...)
		values = append(values, valueOf(tr.o.ValueSize, tr.key(i), 1)...)
	}
	inserted, err := tr.x.Put(t.Context(), keys, values)
	if err == nil {
		must(t, tr.x.Close())
		return nil, nil
	}
	if !errors.Is(err, device.ErrLost) || !errors.As(err, &p) {
		t.Fatal(err)
	}
	got, present := make([]byte, len(values)), make([]bool, n)
	hits, err := tr.x.Get(t.Context(), keys, got, present)
	for deadline := time.Now().Add(time.Minute); errors.Is(err, device.ErrLost) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		hits, err = tr.x.Get(t.Context(), keys, got, present) // until the CPU runs the batches
	}
	must(t, err)
	if hits != inserted || tr.x.Len() != hits {
		t.Errorf("%d keys are said to be inserted, %d are there, Len says %d", inserted, hits, tr.x.Len())
	}
	for i, ok := range present {
		if value := fmt.Sprintf("%x", row(got, i, uint64(tr.o.ValueSize))); ok && value != fmt.Sprintf("%x", row(values, i, uint64(tr.o.ValueSize))) {
			t.Errorf("key %d is %s", i, value)
		}
	}
	must(t, tr.x.Check(t.Context()))
	if err := tr.x.Close(); !errors.Is(err, device.ErrLost) {
		t.Errorf("closed: %v", err)
	}
	return p, device.Bytes(present)
}
