package staging

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// job is a Run under way.
type job struct {
	ctx     context.Context
	b       *batch.Batch
	n, rows int // of the batch, of a piece
	columns []column
	launch  func(*Piece) error
	inOrder bool

	// turn[i] tells slot i that it has been decided whether the pieces before
	// its next one are run; in order, also that they have been launched.
	turn []chan struct{}

	mu       sync.Mutex
	err      error
	launched int // rows of pieces that are run; does not grow after err
}

func (r *Ring) run(b *job) (done int, err error) {
	if b.n == 0 {
		return 0, b.ctx.Err()
	}
	if !b.gather(r.dev) {
		b.rows *= unstagedPieces // the cores have nothing to do: fewer calls
	}
	b.rows = min(b.rows, b.n)
	slots := min(len(r.slots), (b.n-1)/b.rows+1)
	if err := r.open(slots, b.size()); err != nil {
		return 0, fmt.Errorf("staging: %w", err)
	}
	b.turn = make([]chan struct{}, slots)
	tracks := make([]track, slots)
	for i := range slots {
		b.turn[i] = make(chan struct{}, 1)
		tracks[i] = track{b: b, r: r, i: i, lo: i * b.rows}
	}
	b.turn[0] <- struct{}{}
	if r.order != nil {
		interleave(tracks, r.order)
		return b.launched, b.err
	}
	var wg sync.WaitGroup
	for i := 1; i < slots; i++ {
		wg.Go(tracks[i].carry)
	}
	tracks[0].carry()
	wg.Wait()
	return b.launched, b.err
}

// track is a slot at work: it takes every so many-th piece of a batch through
// the device, one phase after the other.
type track struct {
	b  *job
	r  *Ring
	i  int // of the slot
	lo int // the first row of the piece in the slot

	phase     phase // the next one of this piece
	p         *Piece
	err       error // why the piece is not run, or did not arrive
	submitted bool
}

// phase is a part of a piece's way that its slot goes in one step.
type phase int

const (
	sending    phase = iota // to the device
	deciding                // whether it is run; its turn comes after the piece before
	submitting              // in order, that is a part of deciding
	finishing               // waits for the output
)

// carry takes all pieces of a track through its slot.
func (t *track) carry() {
	for !t.over() {
		t.step()
	}
}

// interleave carries the pieces of all tracks on this goroutine: order picks
// the track whose step is next among those that need not wait for their turn.
// One of them always has it, so this ends when all are over.
func interleave(tracks []track, order func(n int) int) {
	able := make([]*track, 0, len(tracks))
	for {
		able = able[:0]
		for i := range tracks {
			if t := &tracks[i]; !t.over() && (t.phase != deciding || len(t.b.turn[i]) > 0) {
				able = append(able, t)
			}
		}
		if len(able) == 0 {
			return
		}
		able[order(len(able))].step()
	}
}

func (t *track) over() bool { return t.lo >= t.b.n }

// step runs the next phase of the piece, or the first one of the next piece.
func (t *track) step() {
	switch t.phase {
	case sending:
		t.send()
		t.phase = deciding
	case deciding:
		t.decide()
		t.phase = submitting
		if t.err != nil || t.b.inOrder {
			t.phase = finishing
		}
	case submitting:
		t.submit()
		t.b.fail(t.err) // it was decided that the piece is run
		t.phase = finishing
	case finishing:
		t.b.fail(t.finish())
		t.lo += len(t.b.turn) * t.b.rows
		t.phase = sending
	}
}

// send begins with a piece.
func (t *track) send() {
	b := t.b
	t.p = &Piece{Lo: t.lo, Batch: b.b.Chunk(t.lo, min(t.lo+b.rows, b.n)), Stream: t.r.work}
	t.submitted = false
	if t.err = b.failure(); t.err == nil {
		t.err = t.slot().send(t.r, t.p, b)
	}
}

// decide waits for the turn of the piece and decides whether it is run.
func (t *track) decide() {
	b := t.b
	<-b.turn[t.i]
	if t.err == nil {
		t.err = b.failure() // of a piece before this one
	}
	if t.err == nil && b.inOrder {
		t.submit()
	}
	b.decided(t.p, t.err)
	b.turn[(t.i+1)%len(b.turn)] <- struct{}{}
}

// submit submits the work on the piece and the copies of its output.
func (t *track) submit() {
	t.err = t.launch()
	t.submitted = t.err == nil
}

func (t *track) launch() error {
	if err := t.r.work.Wait(t.slot().arrived); err != nil {
		return err
	}
	if err := t.b.launch(t.p); err != nil {
		return err
	}
	if err := t.r.work.Record(t.slot().worked); err != nil {
		return err
	}
	return t.slot().bring(t.r, t.p, t.b.columns)
}

// finish waits for the piece and copies its output to the batch. If it was not
// submitted, copies may be under way all the same. The context does not count:
// the device is using the slot.
func (t *track) finish() error {
	ctx := context.Background()
	if !t.submitted {
		return errors.Join(t.r.in.Sync(ctx), t.r.work.Sync(ctx), t.r.out.Sync(ctx))
	}
	if err := t.slot().home.Sync(ctx); err != nil {
		return err
	}
	t.slot().unload(t.p, t.b.columns)
	return nil
}

func (t *track) slot() *slot { return &t.r.slots[t.i] }

// decided records whether a piece is run.
func (b *job) decided(p *Piece, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && err == nil {
		b.launched = p.Lo + p.Batch.N
	} else if b.err == nil {
		b.err = err
	}
}

// failure is what ends the batch: an earlier error, or the context's end.
func (b *job) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.ctx.Err()
}

// fail records that a piece that was to be run did not come home: nothing of
// the batch is known to have arrived. It does nothing without an error.
func (b *job) fail(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.launched = 0
}

// size is what a slot needs for a piece.
func (b *job) size() (size int) {
	for _, c := range b.columns {
		size = align(size + b.rows*c.Width)
	}
	return size
}

// column is a column of a job, by its role in the batch.
type column struct {
	batch.Column
	role   batch.Role
	pinned bool // the device copies it alone
}

// gather lists the columns that the batch has, those to be copied in first, and
// reports whether a core must copy any of them.
func (b *job) gather(dev device.Device) (staged bool) {
	for _, in := range []bool{true, false} {
		for r, c := range b.b.Columns {
			if c.Host == nil || c.IsInput() != in {
				continue
			}
			pinned := dev.Pinned(c.Host)
			b.columns = append(b.columns, column{c, batch.Role(r), pinned})
			staged = staged || !pinned
		}
	}
	return staged
}
