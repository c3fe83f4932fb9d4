package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// work is one operation of a stream: a launch, a copy, a fill, a record of an event, or a wait for
// an event.
type work struct {
	stream *stream
	seq    uint32 // position, from 1, among the works submitted with this stream index
	number int    // number of works submitted to the device earlier
	// before lists the works ordered before this work: those of its stream, those that the host had
	// waited for at submission, and those that an event orders. It is set at submission.
	before progress
	// observed is the view of the host at submission; see [stream.observed].
	observed *view

	// Exactly one of these fields is set.
	launch   *launch
	transfer *transfer
	record   *marker // marker that the work sets
	wait     *marker // marker that the work waits for

	priority int64 // priority under PCT, of a copy or of a work that has not begun
	done     bool
}

// marker is one record of an event. Each call of Record makes a marker.
type marker struct {
	work     *work
	reached  bool
	at       uint64 // clock when the marker was reached
	observed *view  // stream.observed when the marker was reached; valid while dev.era is era
	era      int
}

// progress is a set of works. Of the stream with index i, it contains all works up to seq
// progress[i]. A progress that has been stored does not change.
type progress []uint32

func (c progress) at(i int) uint32 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

// include reports whether c contains w.
func (c progress) include(w *work) bool { return c.at(w.stream.index) >= w.seq }

// with returns c plus w and the works before w in its stream.
func (c progress) with(w *work) progress {
	i := w.stream.index
	if c.at(i) >= w.seq {
		return c
	}
	sum := make(progress, max(len(c), i+1))
	copy(sum, c)
	sum[i] = w.seq
	return sum
}

// join returns the union of c and o.
func (c progress) join(o progress) progress {
	for i, n := range o {
		if c.at(i) >= n {
			continue
		}
		sum := make(progress, max(len(c), len(o)))
		copy(sum, c)
		for k := i; k < len(o); k++ {
			sum[k] = max(sum[k], o[k])
		}
		return sum
	}
	return c
}

// String describes the work for error messages.
func (w *work) String() string {
	var what string
	switch {
	case w.launch != nil:
		what = fmt.Sprintf("launch %d, kernel %s", w.launch.number, w.launch.prog.kernel.name)
	case w.transfer != nil:
		what = w.transfer.String()
	case w.record != nil:
		what = "recording of an event"
	default:
		what = "wait for an event"
	}
	return fmt.Sprintf("%s, stream %d", what, w.stream.index)
}

// maxQueued and maxQueuedBytes bound the number of queued works and the bytes of host memory that
// they hold. A submission that exceeds a bound runs works until the queues are below it.
const maxQueued, maxQueuedBytes = 1 << 12, 1 << 28

// submit appends a work to a stream.
func (d *Device) submit(s *stream, w *work) error {
	w.stream, w.number = s, d.works
	d.works++
	d.lastWork[s.index]++
	w.seq = d.lastWork[s.index]
	if w.launch != nil || w.transfer != nil {
		d.lastAccess[s.index] = w.seq
	}
	s.after = s.after.join(d.waited)
	if w.wait != nil {
		s.after = s.after.join(w.wait.work.before).with(w.wait.work)
	}
	w.before, w.observed = s.after, d.observed
	s.after = s.after.with(w)
	s.queue, s.latest = append(s.queue, w), w
	w.register()
	d.queued++
	d.queuedBytes += w.hostBytes()
	d.heads = nil
	for d.lost == nil && (d.queued > maxQueued || d.queuedBytes > maxQueuedBytes) {
		d.step()
	}
	return d.lost
}

// register adds the work to the users of the memory that it is known to access.
func (w *work) register() {
	if l := w.launch; l != nil {
		for s := range l.paramSegments {
			s.users.add(w)
		}
	}
	if t := w.transfer; t != nil {
		if t.source != nil {
			t.source.users.add(w)
		}
		if t.target != nil {
			t.target.users.add(w)
		}
		if t.async {
			d := w.stream.dev
			d.copies = append(slices.DeleteFunc(d.copies, d.waited.include), w)
		}
	}
}

// hostBytes returns the number of bytes of host memory that the work holds.
func (w *work) hostBytes() int {
	if w.transfer == nil {
		return 0
	}
	return len(w.transfer.host) + len(w.transfer.submitted)
}

// passEvents finishes records and waits at the heads of queues until none can finish.
func (d *Device) passEvents() {
	for changed := true; changed; {
		changed = false
		for _, s := range d.streams {
			for s != nil && len(s.queue) > 0 && s.passEvent(s.queue[0]) {
				d.finish(s.queue[0])
				changed = true
			}
		}
	}
}

// passEvent reports whether w, the head of the queue, is a record or a wait that can finish now.
func (s *stream) passEvent(w *work) bool {
	switch {
	case w.record != nil:
		s.addObserved(w.observed)
		m := w.record
		m.reached, m.at, m.observed, m.era = true, s.dev.clock, s.observed, s.dev.era
		return true
	case w.wait != nil && w.wait.reached:
		s.addObserved(w.observed)
		if w.wait.era == s.dev.era {
			s.addObserved(w.wait.observed)
		}
		return true
	}
	return false
}

// finish removes w, the head of its stream's queue.
func (d *Device) finish(w *work) {
	w.done = true
	w.stream.queue = w.stream.queue[1:]
	d.queued--
	d.queuedBytes -= w.hostBytes()
	d.heads = nil
}

// ready returns the works that can begin or continue, at most one of each stream, by stream index.
func (d *Device) ready() []*work {
	if d.heads == nil {
		d.passEvents()
		for _, s := range d.streams {
			if s != nil && len(s.queue) > 0 && s.queue[0].wait == nil {
				d.heads = append(d.heads, s.queue[0])
			}
		}
	}
	return d.heads
}

// pending yields the works that are not done.
func (d *Device) pending(yield func(w *work) bool) {
	for _, s := range d.streams {
		if s == nil {
			continue
		}
		for _, w := range s.queue {
			if !yield(w) {
				return
			}
		}
	}
}

// await waits until w is done. It runs one step after another, of any works, and checks ctx between
// steps. Callers hold the device's lock. await sometimes releases it for others.
func (d *Device) await(ctx context.Context, w *work) error {
	for steps := 1; ; steps++ {
		if d.ready(); w.done {
			d.addWaited(w)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if steps%lockSteps == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			if err := d.lock(); err != nil {
				d.mu.Lock()
				return err
			}
			continue
		}
		if d.step(); d.lost != nil {
			return d.lost
		}
	}
}

// lockSteps is the number of steps after which await releases the lock.
const lockSteps = 1 << 8

// addWaited records that the host has waited for w. If the host has now waited for all works that
// access memory, addWaited drops what views has recorded, because no finished work is concurrent
// with a later one. That begins a new era.
func (d *Device) addWaited(w *work) {
	d.waited = d.waited.join(w.before.with(w))
	d.refreshMapped()
	if d.views == nil {
		return
	}
	observed := w.stream.observed
	if w.record != nil && w.record.era == d.era {
		observed = w.record.observed
	}
	d.observed = joinViews(d.observed, observed)
	if d.queued > 0 {
		return
	}
	for i, n := range d.lastAccess {
		if d.waited.at(i) < n {
			return
		}
	}
	d.views.reset()
	d.era++
	d.observed = nil
	for _, s := range d.streams {
		if s != nil {
			s.observed = nil
		}
	}
}

// users holds the last work of each stream that may have used a segment.
type users []*work

func (u *users) add(w *work) {
	for i, o := range *u {
		if o.stream.index == w.stream.index {
			if o.seq < w.seq {
				(*u)[i] = w
			}
			return
		}
	}
	*u = append(*u, w)
}

// unfinished returns a work of u that the host has not waited for, or nil. The work may already
// have completed.
func (d *Device) unfinished(u users) *work {
	i := slices.IndexFunc(u, func(w *work) bool { return !d.waited.include(w) })
	if i < 0 {
		return nil
	}
	return u[i]
}
