package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// A work is one operation of a stream: a launch, a copy, a fill, the recording of an event, or a
// wait for one.
type work struct {
	stream *stream
	seq    uint32 // position among the works of the stream's index, from 1
	number int    // number of earlier works of the device
	// before are the works ordered before it: those of its stream, those that the host had waited
	// for at submission, and those that an event orders before. All are fixed when a work is
	// submitted.
	before progress
	// observed is what the host had observed at submission; see [stream.observed].
	observed *view

	// One of these is set.
	launch   *launch
	transfer *transfer
	record   *marker // reached when the stream comes to it
	wait     *marker // the stream continues once it is reached

	priority int64 // of copies and of works that have not begun, for PCT
	done     bool
}

// A marker is one recording of an event: each Record makes one.
type marker struct {
	work     *work
	reached  bool
	at       uint64 // clock when it was reached
	observed *view  // see [stream.observed]; valid in one era only
	era      int
}

// progress lists how much of the work of each stream is ordered before something: of the stream
// with index i, all works up to number progress[i]. A shared value never changes.
type progress []uint32

func (c progress) at(i int) uint32 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

// include reports whether a work is among those ordered before.
func (c progress) include(w *work) bool { return c.at(w.stream.index) >= w.seq }

// with returns c plus a work, and so all those before it in its stream.
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

// join returns the union of both.
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

// String describes a work in messages.
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

// maxQueued and maxQueuedBytes bound the queued works and the host memory that these keep. A
// submission beyond them waits for some to be done.
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

// register makes a work a user of the memory that it is known to access.
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

// hostBytes returns how much host memory a work keeps.
func (w *work) hostBytes() int {
	if w.transfer == nil {
		return 0
	}
	return len(w.transfer.host) + len(w.transfer.submitted)
}

// passEvents advances all streams past the events that they can pass.
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

// passEvent reports whether a stream can pass a work without a step.
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

// finish removes the current work of a stream from its queue.
func (d *Device) finish(w *work) {
	w.done = true
	w.stream.queue = w.stream.queue[1:]
	d.queued--
	d.queuedBytes -= w.hostBytes()
	d.heads = nil
}

// ready returns the works that can begin or continue, by the index of their stream: at most one of
// each stream.
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

// pending visits the works that are not done.
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

// await waits until a work is done: it takes steps of any runnable work, and checks ctx between any
// two of them. Callers hold the device's lock, which await releases now and then for others.
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

// lockSteps is the number of steps that a waiting host takes before it releases the lock.
const lockSteps = 1 << 8

// addWaited records that the host has waited for a work. Once it has for all that access memory, no
// finished work is concurrent with a later one.
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

// users holds the last work of each stream that used something.
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

// unfinished returns a work among the users that the host has not waited for, or nil. Whether the
// work is done does not matter.
func (d *Device) unfinished(u users) *work {
	i := slices.IndexFunc(u, func(w *work) bool { return !d.waited.include(w) })
	if i < 0 {
		return nil
	}
	return u[i]
}
