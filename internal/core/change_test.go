package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

var errBroken = errors.New("broken")

// broken is a toy on which one method fails.
type broken struct {
	*toy
	counters int    // number of readings of the counters until one fails
	fails    string // name of the method that does its work and then returns an error
	now      core.Counters
}

func (e *broken) Caps() core.Caps { return core.Caps{Streams: true} }

func (e *broken) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (int, bool, error) {
	e.now = now
	return e.toy.Prepare(ctx, now, s, b)
}

func (e *broken) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	done, failed, err = e.toy.Change(ctx, s, b)
	if e.fails == "Change" {
		err = errBroken
	}
	return done, failed, err
}

func (e *broken) Retry(ctx context.Context, _ core.Counters, b *batch.Batch) ([]uint32, bool, error) {
	e.room = 0
	_, _, err := e.toy.Change(ctx, nil, b)
	return nil, false, errors.Join(err, errBroken)
}

func (e *broken) ReadCounters(ctx context.Context) (core.Counters, error) {
	if e.counters--; e.counters < 0 {
		return core.Counters{}, errBroken
	}
	return e.toy.ReadCounters(ctx)
}

// If the counters cannot be read, a failed change must return the known part of its effect. It must
// never report a loss of pairs.
func TestCountersFail(t *testing.T) {
	s := mapShape[uint64, uint64]("map uint64 uint64", "")
	// reading fails before the batch, after a chunk, after the batch
	for good, want := range []int{0, 0, 2} {
		table, e := newToy(openCPU(t), s.kind, s.widths, s.types)
		s.readFull(t, table, 3)
		table.Engine = &broken{toy: e, counters: good}
		keys := []uint64{11, 12}
		delta, err := table.Change(t.Context(), "Put", &batch.Batch{N: 2, Kind: op.Put, Columns: columns(keys, keys)})
		if delta != want || !errors.Is(err, errBroken) || table.Len() != 3+want {
			t.Errorf("with %d readings that work: %d, %v, and Len is %d", good, delta, err, table.Len())
		}
	}
}

// After a failed batch on the device, the bounds for the next batch must include what the failed
// batch may have done.
func TestBoundsCountWhatFailed(t *testing.T) {
	s := mapShape[uint64, uint64]("map uint64 uint64", "")
	for _, fails := range []string{"Change", "Retry"} {
		table, toy := newToy(openCPU(t), s.kind, s.widths, s.types)
		e := &broken{toy: toy, counters: 1000, fails: fails}
		table.Engine, table.Policy = e, e
		if fails == "Retry" {
			e.room = 4
		}
		stream, err := table.Device.NewStream()
		must(t, err)
		keys, err := device.Make[uint64](table.Device, 5)
		must(t, err)
		for i := range keys.Host() {
			keys.Host()[i] = uint64(i)
		}
		put := func() error {
			return table.ChangeOn(stream, "PutOn", &batch.Batch{N: 5, Kind: op.Put, Columns: batch.Columns{
				batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(keys),
			}})
		}
		if err := put(); !errors.Is(err, errBroken) {
			t.Errorf("%s fails: %v", fails, err)
		}
		e.fails = ""
		must(t, put())
		if e.now.Used < 5 {
			t.Errorf("behind a %s that failed there are at most %d pairs, and there may be 5", fails, e.now.Used)
		}
		must(t, errors.Join(keys.Free(), stream.Close()))
	}
}
