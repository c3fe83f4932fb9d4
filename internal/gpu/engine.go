package gpu

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
)

// Structure launches the kernels of one structure for an [Engine]. Its methods submit work and
// never wait.
type Structure interface {
	// Lookup launches a lookup. It adds the number of keys found to hits unless hits is 0.
	Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error
	// Change launches a change. contended reports whether the kernel lists operations that contend,
	// which means that duplicates may have decided their outcomes. ResolveWinners then resolves
	// these operations.
	Change(s *device.Stream, p core.Parts, c *Change) (contended bool, err error)
	ResolveWinners(s *device.Stream, p core.Parts, c *Change, w *Winners) error
	// Export launches a kernel that copies the pairs of units [lo,hi) to out (see [core.Engine])
	// and adds their number to count.
	Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error
}

func linesOf(p core.Parts) *core.Lines {
	return p.(interface{ Memory() *core.Lines }).Memory()
}

// Change is a part of a batch that one launch runs.
type Change struct {
	*batch.Batch
	Args Changes // arguments of the kernel

	// Spilled and NoMoves serve engines that set MovesPairs. Spilled is a list of the operations
	// that find no slot before the kernel moves pairs for them. It has capacity for all operations,
	// and the kernel zeroes its items again before the change ends. NoMoves forbids moving pairs.
	Spilled List
	NoMoves bool
}

// Engine implements [core.Engine] except the operations that rebuild whole tables. A structure
// embeds an Engine and adds these operations.
type Engine struct {
	Queue
	Leases *core.Leases
	Order  OrderKernels

	// MovesPairs states that changes may move pairs. A structure sets it before it calls
	// OpenEngine.
	MovesPairs bool
	// Capacity is the number of pairs from which on changes no longer move pairs. It applies to
	// tables of fixed size; 0 means no limit.
	Capacity int

	structure Structure
	// held while submitting a change that moves pairs, or a read of all pairs
	moveMu  sync.Mutex
	noMoves bool          // whether the change being submitted must not move pairs
	slots   int           // slots per line
	cached  core.Counters // counters as of the last read
	stale   bool          // changes were submitted after cached was read
	// upper bound of the slots in use: each operation submitted since counts as a new pair
	used   atomic.Uint64
	ticket uint32 // number of the last launch; kernels store it if a mixed batch has reductions
}

// OpenEngine prepares an engine for structure s, which has the given number of slots per line. The
// caller must call Close, even after an error.
func (e *Engine) OpenEngine(dev device.Device, w batch.Widths, slots int, s Structure) error {
	e.structure, e.slots = s, slots
	return e.Queue.Open(dev, w)
}

// Start empties p, the memory of a table, and makes it the current generation. After an error it
// frees p.
func (e *Engine) Start(p core.Parts) (*core.Leases, error) {
	err := e.RunSync(context.Background(), func(s *device.Stream) error { return clearParts(s, p) })
	if err != nil {
		return nil, errors.Join(err, p.Free())
	}
	e.Leases = core.NewLeases(p)
	return e.Leases, nil
}

func clearParts(s *device.Stream, p core.Parts) error {
	m := linesOf(p)
	if err := s.Fill(m.Buf.Ptr, ^uint32(0), m.Bytes()/4); err != nil {
		return err // the tally keeps its counts
	}
	return s.Fill(m.TallyPtr(), 0, core.LineBytes/4)
}

// Caps implements [core.Engine].
func (e *Engine) Caps() core.Caps { return core.Caps{ConcurrentReads: true, Streams: true} }

// Used returns an upper bound of the number of slots in use, which counts every submitted operation
// as a new pair. Structures use it to choose launches.
func (e *Engine) Used() uint64 { return e.used.Load() }

// Current implements [core.Engine].
func (e *Engine) Current() *core.Lease { return e.Leases.Current() }

// Parts returns the current generation. The caller holds the writer lock.
func (e *Engine) Parts() core.Parts { return e.Current().Parts }

// ---- lookups ------------------------------------------------------------------

// Lookup implements [core.Engine].
func (e *Engine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if b.N == 0 {
		return 0, 0, nil
	}
	if s != nil {
		return b.N, 0, e.structure.Lookup(s, l.Parts, b, count)
	}
	return e.LookupPieces(ctx, b, func(s *device.Stream, b *batch.Batch, hits device.Ptr) error {
		if err := s.Wait(e.Visible); err != nil {
			return err
		}
		return e.structure.Lookup(s, l.Parts, b, hits)
	})
}

// CountPresent implements [core.Presenter].
func (e *Engine) CountPresent(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error) {
	if err := s.Fill(e.Word(WordSum), 0, 2); err != nil {
		return 0, err
	}
	if err := e.structure.Lookup(s, e.Parts(), b.Select(batch.Keys), e.Word(WordSum)); err != nil {
		return 0, err
	}
	var n [1]uint64
	err := s.CopyOut(ctx, device.Bytes(n[:]), e.Word(WordSum))
	return int(n[0]), err
}

// ---- changes ------------------------------------------------------------------

// launchOps is the maximum number of operations in a launch that resolves no duplicates. The
// structure chooses its kernels anew for each launch.
const launchOps = 1 << 24

// reduceOps is the maximum number of reductions in a launch. It is larger than launchOps because
// blocks keep gathered values until the launch ends.
const reduceOps = 1 << 26

// Change implements [core.Engine].
func (e *Engine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.N == 0 {
		return 0, nil, nil
	}
	if s == nil {
		return e.changeHost(ctx, b)
	}
	report := b.Flags&batch.Report != 0
	size, to := launchOps, List{Count: e.Word(WordDropped)}
	if b.Reduces() {
		size = reduceOps
	}
	var x *Scratch
	if b.Ordered() || report || e.MovesPairs {
		if x, err = e.AcquireScratch(ctx, b.N); err != nil {
			return 0, nil, err
		}
		defer e.ReleaseScratch(x)
		size = min(ResolveOps, x.Ops)
	}
	if report {
		to = e.Failed(x)
	}
	for done < b.N {
		n := min(size, b.N-done)
		more, err := e.submitPart(s, b.Chunk(done, done+n), x, to, done, report)
		failed = append(failed, more...)
		if err != nil {
			return done, failed, err
		}
		done += n
	}
	return done, failed, nil
}

// submitPart submits a part of a batch. first is the index in the batch of the part's first row. If
// report is set, submitPart waits for the part and returns the operations that overflowed. While
// pairs must not move, more operations overflow, so it then reports them even without report.
func (e *Engine) submitPart(s *device.Stream, part *batch.Batch, x *Scratch, to List, first int, report bool) (failed []uint32, err error) {
	err = e.withMoveLock(func() error {
		if e.noMoves {
			report, to = true, e.Failed(x)
		}
		if report {
			if err := e.SetWord(s, WordFailed, 0); err != nil {
				return err
			}
		}
		return e.SubmitVisible(s, func() error { return e.launch(s, part, x, to, first) })
	})
	if err != nil || !report {
		return nil, err
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return nil, err
	}
	return e.ReadFailed(context.Background(), x)
}

// withMoveLock calls submit, which submits a change. The change moves no pairs if an iteration is
// reading them. An iteration that begins later reads after the change (see Export).
func (e *Engine) withMoveLock(submit func() error) error {
	e.moveMu.Lock()
	defer e.moveMu.Unlock()
	e.noMoves = e.MovesPairs && e.Leases.Held()
	return submit()
}

// Rearrange runs launches that move pairs, after all changes, and waits for them. It does nothing
// and returns false while an iteration reads the pairs.
func (e *Engine) Rearrange(ctx context.Context, submit func(*device.Stream) error) (done bool, err error) {
	err = e.withMoveLock(func() error {
		if done = !e.noMoves; !done {
			return nil
		}
		e.stale = true
		return e.Submit(e.Stream, func() error { return submit(e.Stream) })
	})
	if !done {
		return false, err
	}
	return true, errors.Join(err, e.Stream.Sync(context.WithoutCancel(ctx)))
}

// changeHost runs a batch in host memory on the device. If the batch exceeds the capacity of a
// scratch, it runs only the first operations.
func (e *Engine) changeHost(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	x, err := e.AcquireScratch(ctx, b.N)
	if err != nil {
		return 0, nil, err
	}
	defer e.ReleaseScratch(x)
	b = b.Chunk(0, min(b.N, ResolveOps, x.Ops))
	c, err := e.AcquireTransfer()
	if err != nil {
		return 0, nil, err
	}
	defer e.ReleaseTransfer(c)
	done, err = c.Ring.RunInOrder(ctx, b, func(p *staging.Piece) error {
		return e.withMoveLock(func() error {
			return e.Submit(p.Stream, func() error { return e.changePiece(c, p, b.N, x) })
		})
	})
	// Read the results of the operations that have run, even if the context has ended.
	switch ctx := context.WithoutCancel(ctx); {
	case err == nil:
		e.markWaited() // the last piece's copies run after all changes
		n := e.storeReport(c)
		failed, err = e.listFailed(ctx, x, n)
	case done > 0:
		var ferr error
		failed, ferr = e.ReadFailed(ctx, x)
		err = errors.Join(err, ferr)
		// The piece that failed may have run some operations.
		failed = slices.DeleteFunc(failed, func(i uint32) bool { return int(i) >= done })
	}
	return done, failed, err
}

// changePiece submits one piece of a batch of n operations in host memory.
func (e *Engine) changePiece(c *Transfer, p *staging.Piece, n int, x *Scratch) error {
	if p.Lo == 0 {
		if err := e.SetWord(p.Stream, WordFailed, 0); err != nil {
			return err
		}
	}
	if err := e.launch(p.Stream, p.Batch, x, e.Failed(x), p.Lo); err != nil || p.Lo+p.Batch.N < n {
		return err
	}
	return c.submitReport(p.Stream, linesOf(e.Parts()).TallyPtr(), e.Word(WordFailed))
}

// storeReport stores the counters that arrived with the last piece of a batch. It returns the
// number of operations that overflowed.
func (e *Engine) storeReport(c *Transfer) (failed uint32) {
	e.cached.Live, e.cached.Used, failed = c.report()
	e.stale = false
	e.used.Store(e.cached.Used)
	return failed
}

// launch launches the kernel of a change and, if the structure requests it, the kernels that
// resolve duplicates. first is the index of b's first row in the whole batch.
func (e *Engine) launch(s *device.Stream, b *batch.Batch, x *Scratch, failed List, first int) error {
	full := e.Capacity > 0 && !e.stale && e.cached.Live >= uint64(e.Capacity)
	e.stale = true
	defer e.addUsed(b)
	if x != nil {
		if err := e.setUser(s, x); err != nil {
			return err
		}
	}
	p := e.Parts()
	contended, ok, err := e.Contend(s, b, x)
	if err != nil {
		return err
	}
	c := &Change{Batch: b, Args: changesOf(b, first, ok, contended, failed), NoMoves: e.noMoves || full}
	e.ticket++
	c.Args.Reductions, c.Args.Ticket = e.Word(WordReductions), e.ticket
	resolve, err := e.launchChange(s, p, c, x)
	if err != nil || !resolve {
		return err
	}
	w := Winners{Contest: x.Contest(b, contended), Vals: c.Args.Vals, Ok: ok}
	resolveWinners := func(c *Change) error {
		return x.resolve(s, &e.Order, &w.Contest, func() error { return e.structure.ResolveWinners(s, p, c, &w) })
	}
	if err = resolveWinners(c); err != nil || b.Kind != op.Put || ok == 0 {
		return err
	}
	// The last Put of a key supplies the value, but the first Put reports the insertion. A second
	// resolution, as of Deletes without values, sets these flags.
	flags, deletes := *c, *b
	deletes.Kind, flags.Batch = op.Delete, &deletes
	w.Contest.Kind = uint32(op.Delete)
	return resolveWinners(&flags)
}

// launchChange calls the structure's Change. Engines that move pairs use the memory of the winners
// as the list of spilled operations.
func (e *Engine) launchChange(s *device.Stream, p core.Parts, c *Change, x *Scratch) (contended bool, err error) {
	if !e.MovesPairs {
		return e.structure.Change(s, p, c)
	}
	if err := e.SetWord(s, WordSpilled, 0); err != nil {
		return false, err
	}
	c.Spilled = List{Items: x.winners(), Count: e.Word(WordSpilled)}
	clean := x.clean
	x.clean = false
	contended, err = e.structure.Change(s, p, c)
	x.clean = clean && err == nil
	return contended, err
}

// Answer implements [core.Answerer]. It looks up keys part by part, and stores the values found in
// the memory of a scratch's winners.
func (e *Engine) Answer(ctx context.Context, s *device.Stream, b *batch.Batch) error {
	k, err := e.loadKernels()
	if err != nil {
		return err
	}
	for done := 0; done < b.N && err == nil; {
		var x *Scratch
		if x, err = e.AcquireScratch(ctx, b.N-done); err == nil {
			part := b.Chunk(done, min(done+x.Ops, b.N))
			err = e.Submit(s, func() error { return e.submitAnswer(s, part, x, k) })
			e.ReleaseScratch(x)
			done += part.N
		}
	}
	return err
}

func (e *Engine) submitAnswer(s *device.Stream, b *batch.Batch, x *Scratch, k *kernels) error {
	if err := e.setUser(s, x); err != nil {
		return err
	}
	e.stale, x.clean = true, false
	look := b.Select(batch.Keys)
	look.Columns[batch.Vals] = b.Columns[batch.Vals].WithPtr(x.winners())
	look.Columns[batch.OK] = batch.Column{Ptr: x.flags()}
	if err := e.structure.Lookup(s, e.Parts(), look, 0); err != nil {
		return err
	}
	p := answerParams{found: x.winners(), there: x.flags(), vals: b.Columns[batch.Vals].Ptr, ok: b.Columns[batch.OK].Ptr, n: uint64(b.N)}
	return device.Launch(s, k.answer[e.Widths.Val/8], Wave(e.Dev, b.N), Block, &p)
}

func (e *Engine) addUsed(b *batch.Batch) {
	if b.Inserts() {
		e.used.Add(uint64(b.N))
	}
}

// AddPairs implements [core.Engine].
func (e *Engine) AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error {
	k, err := e.loadKernels()
	if err != nil {
		return err
	}
	e.stale = true // so that ReadCounters waits for it
	p := addParams{counters: linesOf(e.Parts()).TallyPtr(), to: to.Ptr()}
	if negate {
		p.negate = 1
	}
	return e.Submit(s, func() error { return k.add.launch(s, p) })
}

// ---- whole tables ---------------------------------------------------------------

// ReadCounters implements [core.Engine].
func (e *Engine) ReadCounters(ctx context.Context) (core.Counters, error) {
	if !e.stale {
		return e.cached, nil
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return core.Counters{}, err
	}
	var c [2]uint64
	if err := e.Stream.CopyOut(ctx, device.Bytes(c[:]), linesOf(e.Parts()).TallyPtr()); err != nil {
		return core.Counters{}, err
	}
	e.cached, e.stale = core.Counters{Live: c[0], Used: c[1]}, false
	e.used.Store(c[1])
	return e.cached, nil
}

// RunSync runs submit on the engine's stream after all changes and waits for the work, so that
// readers may follow.
func (e *Engine) RunSync(ctx context.Context, submit func(*device.Stream) error) error {
	e.stale = true
	err := e.Submit(e.Stream, func() error { return submit(e.Stream) })
	waited := e.Stream.Sync(context.WithoutCancel(ctx))
	if err == nil && waited == nil {
		e.markWaited()
	}
	return errors.Join(err, waited)
}

// SubmitUser submits a change that the structure launches itself to a stream of a caller.
func (e *Engine) SubmitUser(s *device.Stream, submit func() error) error {
	e.stale = true
	return e.SubmitVisible(s, submit)
}

// SubmitCounting submits a batch to a stream of a caller and adds the number of operations that
// overflow to failed. If the scratch is too small for the batch, SubmitCounting runs nothing and
// returns false. Otherwise duplicates would be resolved part by part, and a later operation could
// find capacity that an earlier one did not.
func (e *Engine) SubmitCounting(ctx context.Context, s *device.Stream, b *batch.Batch, failed device.Ptr) (ran bool, err error) {
	x, err := e.AcquireScratch(ctx, b.N)
	if err != nil {
		return false, err
	}
	defer e.ReleaseScratch(x)
	if b.N > min(x.Ops, ResolveOps) {
		return false, nil
	}
	return true, e.SubmitVisible(s, func() error { return e.launch(s, b, x, List{Count: failed}, 0) })
}

// SetCounters stores counters that the caller has read after all changes. All changes must have
// ended.
func (e *Engine) SetCounters(now core.Counters) {
	e.cached, e.stale = now, false
	e.used.Store(now.Used)
	e.markWaited()
}

// RunExclusive calls RunSync in an exclusive section, without readers.
func (e *Engine) RunExclusive(ctx context.Context, submit func(*device.Stream) error) error {
	if err := e.Leases.BeginExclusive(ctx); err != nil {
		return err
	}
	defer e.Leases.EndExclusive()
	return e.RunSync(ctx, submit)
}

// Clear implements [core.Engine].
func (e *Engine) Clear(ctx context.Context) error {
	return e.RunSync(ctx, func(s *device.Stream) error { return clearParts(s, e.Parts()) })
}

// Move copies the current generation to new memory and makes that memory the current generation.
// move submits the copy and adds the number of pairs that overflow to dropped. If any pairs
// overflow, Move frees the new memory and returns their number.
func (e *Engine) Move(ctx context.Context, to core.Parts, move func(s *device.Stream, from core.Parts, dropped device.Ptr) error) (dropped int, err error) {
	err = e.RunSync(ctx, func(s *device.Stream) error {
		if err := errors.Join(clearParts(s, to), e.SetWord(s, WordResult, 0)); err != nil {
			return err
		}
		return move(s, e.Parts(), e.Word(WordResult))
	})
	if err == nil {
		var n uint32
		n, err = e.ReadWord(context.WithoutCancel(ctx), WordResult)
		dropped = int(n)
	}
	if err != nil || dropped > 0 {
		return dropped, errors.Join(err, to.Free())
	}
	return 0, e.Leases.Replace(to)
}

// maxReport is the maximum number of values that Report reads.
const maxReport = 32

// Report reads statistics of a table into out. launch runs a kernel on the engine's stream, which
// adds the statistics to len(out) zeroed words at a device address.
func (e *Engine) Report(ctx context.Context, out []uint64, launch func(to device.Ptr) error) error {
	to := e.Word(WordReport)
	if err := e.Stream.Fill(to, 0, 2*len(out)); err != nil {
		return err
	}
	if err := launch(to); err != nil {
		return err
	}
	return e.Stream.CopyOut(ctx, device.Bytes(out), to)
}

// Extent implements [core.Engine].
func (e *Engine) Extent(l *core.Lease) (units uint32, rows int) {
	return linesOf(l.Parts).Units(), e.slots
}

// Export implements [core.Engine].
func (e *Engine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	c, err := e.AcquireTransfer()
	if err != nil {
		return 0, err
	}
	defer e.ReleaseTransfer(c)
	_, err = c.Ring.RunWhole(ctx, out, func(p *staging.Piece) error {
		if err := errors.Join(e.waitChanges(p.Stream), p.Stream.Fill(c.Hits.Ptr(), 0, 2)); err != nil {
			return err
		}
		return errors.Join(e.structure.Export(p.Stream, l.Parts, lo, hi, p.Batch, c.Hits.Ptr()), c.submitHits(p))
	})
	if err != nil {
		return 0, err
	}
	return c.hitCount(), nil
}

// waitChanges makes a stream wait for the changes that an iteration must include. Later changes may
// be visible to the iteration or not. Changes that move pairs have all been submitted before: once
// the iteration holds its lease, withMoveLock forbids moves.
func (e *Engine) waitChanges(s *device.Stream) error {
	event := e.Visible
	if e.MovesPairs {
		e.moveMu.Lock()
		defer e.moveMu.Unlock()
		event = e.LastChange()
	}
	return s.Wait(event)
}
