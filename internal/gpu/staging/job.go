package staging

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// job is a Run in flight.
type job struct {
	ctx     context.Context
	b       *batch.Batch
	columns []column
	launch  func(*Piece) error
	inOrder bool
	whole   bool // in one piece
	staged  bool // a core copies at least one column
	pieces  []int
	// alone marks a batch of one piece. It overlaps with nothing, so its copies are on the stream
	// of its work, and need no events.
	alone   bool
	in, out *device.Stream

	// turn[i] signals segment i that the pieces before its next one have been decided on; in order,
	// also that they have been launched.
	turn []chan struct{}

	mu       sync.Mutex
	err      error
	launched int // rows of pieces that run; does not grow after err
}

func (r *Ring) run(b *job) (done int, err error) {
	if b.b.N == 0 {
		return 0, b.ctx.Err()
	}
	b.gather(r.dev)
	blocks, err := r.borrow(b)
	if err != nil {
		return 0, fmt.Errorf("staging: %w", err)
	}
	done, err = r.carry(b, blocks)
	return done, errors.Join(err, r.memory.give(blocks))
}

// borrow cuts a batch and acquires memory for its pieces, smaller ones if memory is short.
func (r *Ring) borrow(b *job) (blocks []block, err error) {
	limit := r.pieceBytes
	segments := len(r.segments)
	if !b.staged { // cores do not copy, so use fewer and larger pieces
		limit = min(unstagedPieces*limit, max(limit, b.bytes()/unstagedPieces))
		segments = min(segments, unstagedSegments)
	}
	rows := min(b.rows(limit), b.b.N)
	r.cut(b, rows, limit)
	need := request{segments: min(segments, len(b.pieces)-1), least: 1}
	if err := r.open(need.segments); err != nil {
		return nil, err
	}
	need.host, need.device = b.size()
	for !b.whole && !b.variable() && max(need.host, need.device)/need.least >= 2*leastPiece && rows/need.least >= 2 {
		need.least *= 2
	}
	blocks, times, err := r.memory.lend(b.ctx, need)
	if times > 1 {
		r.cut(b, rows/times, limit)
	}
	return blocks, err
}

// carry takes all pieces through the device.
func (r *Ring) carry(b *job, blocks []block) (done int, err error) {
	n := len(blocks)
	b.in, b.out = r.in, r.out
	if b.alone = len(b.pieces) == 2; b.alone {
		b.in, b.out = r.work, r.work
	}
	b.turn = make([]chan struct{}, n)
	tracks := make([]track, n)
	for i := range n {
		r.segments[i].block = blocks[i]
		b.turn[i] = make(chan struct{}, 1)
		tracks[i] = track{b: b, r: r, i: i, next: i}
	}
	b.turn[0] <- struct{}{}
	if r.order != nil {
		interleave(tracks, r.order)
		return b.launched, b.err
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(tracks[i].carry)
	}
	tracks[0].carry()
	wg.Wait()
	return b.launched, b.err
}

// track is a segment at work. With n segments, it takes every nth piece of a batch through the
// device, one phase after the other.
type track struct {
	b *job
	r *Ring
	i int // of the segment

	next int // number of the current piece

	phase     phase // next phase of this piece
	p         *Piece
	err       error // why the piece does not run, or did not arrive
	submitted bool
}

// phase is one step of a piece through its segment.
type phase int

const (
	sending    phase = iota // to the device
	deciding                // whether it runs; its turn comes after the piece before
	submitting              // in order, this is a part of deciding
	finishing               // waits for the output
)

// carry takes all pieces of a track through its segment.
func (t *track) carry() {
	for !t.over() {
		t.step()
	}
}

// interleave carries the pieces of all tracks on this goroutine. order picks the next track to step
// among those that need not wait for their turn. At least one of them never waits, so interleave
// ends when all are over.
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

func (t *track) over() bool { return t.next >= len(t.b.pieces)-1 }

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
		t.b.fail(t.err) // the decision was to run the piece
		t.phase = finishing
	case finishing:
		t.b.fail(t.finish())
		t.next += len(t.b.turn)
		t.phase = sending
	}
}

// send starts a piece.
func (t *track) send() {
	b := t.b
	lo, hi := b.pieces[t.next], b.pieces[t.next+1]
	t.p = &Piece{Lo: lo, Batch: b.b.Chunk(lo, hi), Stream: t.r.work}
	t.submitted = false
	if t.err = b.failure(); t.err == nil {
		t.err = t.segment().send(t.p, b)
	}
}

// decide waits for the turn of the piece and decides whether it runs.
func (t *track) decide() {
	b := t.b
	<-b.turn[t.i]
	if t.err == nil {
		t.err = b.failure() // of an earlier piece
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
	s, work := t.segment(), t.r.work
	if !t.b.alone {
		if err := work.Wait(s.arrived); err != nil {
			return err
		}
	}
	if err := t.b.launch(t.p); err != nil {
		return err
	}
	if !t.b.alone {
		if err := work.Record(s.worked); err != nil {
			return err
		}
		if err := t.b.out.Wait(s.worked); err != nil {
			return err
		}
	}
	return s.bring(t.b)
}

// finish waits for the piece and copies its output to the batch. If it was not submitted, copies
// may still be in flight. finish ignores the context, because the device is using the segment.
func (t *track) finish() error {
	ctx := context.Background()
	if !t.submitted {
		return errors.Join(t.r.in.Sync(ctx), t.r.work.Sync(ctx), t.r.out.Sync(ctx))
	}
	if err := t.segment().returned.Sync(ctx); err != nil {
		return err
	}
	t.segment().unload()
	return nil
}

func (t *track) segment() *segment { return &t.r.segments[t.i] }

// decided records whether a piece runs.
func (b *job) decided(p *Piece, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && err == nil {
		b.launched = p.Lo + p.Batch.N
	} else if b.err == nil {
		b.err = err
	}
}

// failure returns the error that ends the batch: an earlier error, or the context's.
func (b *job) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.ctx.Err()
}

// fail records that a piece that was to run did not arrive; then no part of the batch is known to
// have arrived. It does nothing without an error.
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

// column is a column of a job, by its role in the batch.
type column struct {
	batch.Column
	role   batch.Role
	pinned bool // the device copies it directly
}

// gather lists the columns of the batch, inputs first.
func (b *job) gather(dev device.Device) {
	for _, in := range []bool{true, false} {
		for r, c := range b.b.Columns {
			if c.Host == nil || c.IsInput() != in {
				continue
			}
			pinned := dev.Pinned(c.Host)
			b.columns = append(b.columns, column{c, batch.Role(r), pinned})
			b.staged = b.staged || !pinned
		}
	}
}
