package staging

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// job is a call of Run in progress.
type job struct {
	ctx     context.Context
	b       *batch.Batch
	columns []column
	launch  func(*Piece) error
	inOrder bool
	whole   bool // run the batch as one piece
	staged  bool // a core copies at least one column
	pieces  []int
	// single marks a batch that is a single piece. Its copies overlap with nothing, so they run on
	// the work stream and need no events.
	single  bool
	in, out *device.Stream

	// ready[i] signals slot i that all pieces before its next piece have been decided on. If
	// inOrder is set, they have also been launched.
	ready []chan struct{}

	mu       sync.Mutex
	err      error
	launched int // rows of the pieces that run; does not grow after err
}

func (r *Ring) run(b *job) (done int, err error) {
	if b.b.N == 0 {
		return 0, b.ctx.Err()
	}
	b.addColumns(r.dev)
	blocks, err := r.acquireMemory(b)
	if err != nil {
		return 0, fmt.Errorf("staging: %w", err)
	}
	done, err = r.runPieces(b, blocks)
	return done, errors.Join(err, r.memory.release(blocks))
}

// acquireMemory cuts a batch into pieces and acquires memory for them. If memory is short, it cuts
// smaller pieces.
func (r *Ring) acquireMemory(b *job) (blocks []block, err error) {
	limit := r.pieceBytes
	slots := len(r.slots)
	if !b.staged { // Cores do not copy, so use fewer and larger pieces.
		limit = min(unstagedPieces*limit, max(limit, b.bytes()/unstagedPieces))
		slots = min(slots, unstagedSlots)
	}
	rows := min(b.rows(limit), b.b.N)
	r.cut(b, rows, limit)
	req := request{slots: min(slots, len(b.pieces)-1), maxDivisor: 1}
	if err := r.open(req.slots); err != nil {
		return nil, err
	}
	req.host, req.device = b.slotSize()
	for !b.whole && !b.variable() && max(req.host, req.device)/req.maxDivisor >= 2*minPiece && rows/req.maxDivisor >= 2 {
		req.maxDivisor *= 2
	}
	blocks, divisor, err := r.memory.acquire(b.ctx, req)
	if divisor > 1 {
		r.cut(b, rows/divisor, limit)
	}
	return blocks, err
}

func (r *Ring) runPieces(b *job, blocks []block) (done int, err error) {
	n := len(blocks)
	b.in, b.out = r.in, r.out
	if b.single = len(b.pieces) == 2; b.single {
		b.in, b.out = r.work, r.work
	}
	b.ready = make([]chan struct{}, n)
	workers := make([]worker, n)
	for i := range n {
		r.slots[i].block = blocks[i]
		b.ready[i] = make(chan struct{}, 1)
		workers[i] = worker{b: b, r: r, i: i, next: i}
	}
	b.ready[0] <- struct{}{}
	if r.order != nil {
		interleave(workers, r.order)
		return b.launched, b.err
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(workers[i].run)
	}
	workers[0].run()
	wg.Wait()
	return b.launched, b.err
}

// worker runs the pieces of one slot. With n slots, it takes every nth piece of a batch through the
// device, phase by phase.
type worker struct {
	b *job
	r *Ring
	i int // index of the slot

	next int // index of the current piece

	phase     phase // next phase of the piece
	p         *Piece
	err       error // reason why the piece does not run or did not arrive
	submitted bool
}

// phase is a step of a piece through its slot.
type phase int

const (
	sending    phase = iota // copies the input to the device
	deciding                // decides, after the previous piece, whether the piece runs
	submitting              // submits the work; if inOrder is set, deciding does this
	finishing               // waits for the output
)

func (t *worker) run() {
	for !t.finished() {
		t.step()
	}
}

// interleave runs the steps of all workers on the calling goroutine. order picks the next worker
// among those that can continue. At least one worker can always continue, so interleave ends when
// all pieces have finished.
func interleave(workers []worker, order func(n int) int) {
	runnable := make([]*worker, 0, len(workers))
	for {
		runnable = runnable[:0]
		for i := range workers {
			if t := &workers[i]; !t.finished() && (t.phase != deciding || len(t.b.ready[i]) > 0) {
				runnable = append(runnable, t)
			}
		}
		if len(runnable) == 0 {
			return
		}
		runnable[order(len(runnable))].step()
	}
}

func (t *worker) finished() bool { return t.next >= len(t.b.pieces)-1 }

// step runs the next phase of the current piece, or the first phase of the next piece.
func (t *worker) step() {
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
		t.b.fail(t.err) // the piece counts as launched, so an error must undo that
		t.phase = finishing
	case finishing:
		t.b.fail(t.finish())
		t.next += len(t.b.ready)
		t.phase = sending
	}
}

func (t *worker) send() {
	b := t.b
	lo, hi := b.pieces[t.next], b.pieces[t.next+1]
	t.p = &Piece{Lo: lo, Batch: b.b.Chunk(lo, hi), Stream: t.r.work}
	t.submitted = false
	if t.err = b.failure(); t.err == nil {
		t.err = t.slot().submitInputs(t.p, b)
	}
}

// decide waits for the decision on the previous piece, and decides whether this piece runs.
func (t *worker) decide() {
	b := t.b
	<-b.ready[t.i]
	if t.err == nil {
		t.err = b.failure() // of an earlier piece
	}
	if t.err == nil && b.inOrder {
		t.submit()
	}
	b.recordDecision(t.p, t.err)
	b.ready[(t.i+1)%len(b.ready)] <- struct{}{}
}

func (t *worker) submit() {
	t.err = t.launch()
	t.submitted = t.err == nil
}

func (t *worker) launch() error {
	s, work := t.slot(), t.r.work
	if !t.b.single {
		if err := work.Wait(s.arrived); err != nil {
			return err
		}
	}
	if err := t.b.launch(t.p); err != nil {
		return err
	}
	if !t.b.single {
		if err := work.Record(s.worked); err != nil {
			return err
		}
		if err := t.b.out.Wait(s.worked); err != nil {
			return err
		}
	}
	return s.submitOutputs(t.b)
}

// finish waits for the piece and copies its output to the batch. If the piece was not submitted,
// finish waits for all three streams, since copies may be in flight. It ignores the context because
// the device is using the slot.
func (t *worker) finish() error {
	ctx := context.Background()
	if !t.submitted {
		return errors.Join(t.r.in.Sync(ctx), t.r.work.Sync(ctx), t.r.out.Sync(ctx))
	}
	if err := t.slot().returned.Sync(ctx); err != nil {
		return err
	}
	t.slot().unload()
	return nil
}

func (t *worker) slot() *slot { return &t.r.slots[t.i] }

func (b *job) recordDecision(p *Piece, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && err == nil {
		b.launched = p.Lo + p.Batch.N
	} else if b.err == nil {
		b.err = err
	}
}

// failure returns the error that ends the batch: the first error of a piece, or the error of the
// context.
func (b *job) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.ctx.Err()
}

// fail records the error of a piece that was decided to run but did not arrive. No row of the batch
// counts as run then. A nil error does nothing.
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

// column is a column of a job, with its role in the batch.
type column struct {
	batch.Column
	role   batch.Role
	pinned bool // the device copies it directly
}

// addColumns lists the columns to copy, inputs first.
func (b *job) addColumns(dev device.Device) {
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
