package parquet

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/weftgo/weft/column"
)

// prefetchBytes limits decoding ahead: no further row group is started once the started ones total
// this size, according to their metadata.
const prefetchBytes = 256 << 20

// minGroup is the estimated memory of a row group during decoding: windows, pages, a dictionary and
// batches. A memory limit admits one row group per minGroup bytes.
const minGroup = 32 << 20

// prefetcher decodes row groups concurrently, before their batches are requested. If the file has
// fewer row groups than cores, it also decodes the columns of a row group concurrently.
type prefetcher struct {
	f      *File
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	read      func(group int, fields []int, most int) iter.Seq2[Batch, error]
	fields    []int
	parts     [][]int // fields that one goroutine decodes together
	maxGroups int     // maximum number of started row groups
	started   []*decoding
	next      int   // row group to start next
	bytes     int64 // total size of started row groups
}

// decoding is a row group that is being decoded. Each part of the fields has its own channel.
type decoding struct {
	batches []chan prefetchedBatch
	bytes   int64
}

type prefetchedBatch struct {
	Batch
	err error
}

func (f *File) newPrefetcher(ctx context.Context, fields []int, cores int) *prefetcher {
	a := &prefetcher{f: f, fields: fields, maxGroups: min(cores, f.RowGroups())}
	if f.memory > 0 {
		a.maxGroups = int(max(1, min(int64(a.maxGroups), f.memory/minGroup)))
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.read = func(group int, fields []int, most int) iter.Seq2[Batch, error] {
		return whole(f.rowGroup(a.ctx, group, fields, most))
	}
	parts := min(len(fields), (cores+a.maxGroups-1)/a.maxGroups)
	for i := range parts {
		a.parts = append(a.parts, fields[len(fields)*i/parts:len(fields)*(i+1)/parts])
	}
	return a
}

func (a *prefetcher) stop() {
	a.cancel()
	a.work.Wait()
}

// start starts decoding further row groups until maxGroups or prefetchBytes is reached. If none is
// being decoded, it starts one despite prefetchBytes.
func (a *prefetcher) start() {
	for a.next < a.f.RowGroups() && len(a.started) < a.maxGroups && (len(a.started) == 0 ||
		a.bytes < prefetchBytes) {
		group := a.next
		d := &decoding{bytes: max(a.f.meta.RowGroups[group].TotalByteSize, 0)}
		nRows := a.f.batchRows(group, a.fields)
		for _, fields := range a.parts {
			out := make(chan prefetchedBatch, 1)
			d.batches = append(d.batches, out)
			a.work.Go(func() { a.decode(a.read(group, fields, nRows), out) })
		}
		a.started = append(a.started, d)
		a.bytes += d.bytes
		a.next++
	}
}

// whole converts an iteration over columns to batches that omit no rows.
func whole(columns iter.Seq2[[]column.Column, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for c, err := range columns {
			b := Batch{Columns: c}
			if len(c) > 0 {
				b.Rows = int64(c[0].Len())
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func (a *prefetcher) decode(batches iter.Seq2[Batch, error], out chan<- prefetchedBatch) {
	defer close(out)
	for batch, err := range batches {
		select {
		case out <- prefetchedBatch{batch, err}:
		case <-a.ctx.Done():
			return
		}
	}
}

// group returns the batches of the next row group. Error messages contain number, the group's
// index.
func (a *prefetcher) group(number int) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		a.start()
		d := a.started[0]
		for {
			batch, err := a.batch(d, number)
			if batch.Rows == 0 && err == nil {
				break
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
		a.started, a.bytes = a.started[1:], a.bytes-d.bytes
	}
}

// batch combines the next batch of each part of a row group. After the last one it returns an empty
// Batch.
func (a *prefetcher) batch(d *decoding, number int) (batch Batch, err error) {
	ended := 0
	for _, part := range d.batches {
		b, more := <-part
		if b.err != nil {
			return Batch{}, b.err
		}
		if !more {
			ended++
		}
		batch.Columns = append(batch.Columns, b.Columns...)
		batch.Rows = max(batch.Rows, b.Rows)
	}
	switch {
	case a.ctx.Err() != nil:
		return Batch{}, a.ctx.Err()
	case ended > 0 && ended < len(d.batches):
		return Batch{}, fmt.Errorf("parquet: row group %d: columns of different lengths", number)
	}
	return batch, nil
}
