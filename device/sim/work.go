package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// A work is one operation of a stream: a launch, a copy or a fill, or the
// recording of an event or the waiting for one.
type work struct {
	stream *stream
	seq    uint32 // its place among the works of the stream's index, from 1
	number int    // works of the device submitted before it
	// before are the works that are ordered before it: those of its stream,
	// those that the host had waited for when it submitted this one, and those
	// that an event orders before. All are known when a work is submitted.
	before progress
	// learned is what the host had learned by then; see [stream.learned].
	learned *view

	// One of these.
	launch   *launch
	transfer *transfer
	record   *marker // reached when the stream comes to it
	wait     *marker // which lets the stream go on when it is reached

	priority int64 // of what has not begun, and of copies, for PCT
	done     bool
}

// A marker is where an event was recorded: each Record makes one.
type marker struct {
	work    *work
	reached bool
	at      uint64 // of the clock
	learned *view  // see [stream.learned]; of an era only
	era     int
}

// progress says how much of the work of each stream is ordered before something:
// of the stream with index i, all works up to number progress[i]. A value that
// others may hold never changes.
type progress []uint32

func (c progress) at(i int) uint32 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

// include reports whether a work is among those ordered before.
func (c progress) include(w *work) bool { return c.at(w.stream.index) >= w.seq }

// with is c and a work, and so all those before it in its stream.
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

// join is what is in either.
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

// String names a work in messages.
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

// maxQueued and maxQueuedBytes bound the works that streams hold and the host
// memory that these keep; a submission beyond them waits for some to be done.
const maxQueued, maxQueuedBytes = 1 << 12, 1 << 28

// submit puts a work at the end of a stream.
func (d *Device) submit(s *stream, w *work) error {
	w.stream, w.number = s, d.works
	d.works++
	d.last[s.index]++
	w.seq = d.last[s.index]
	if w.launch != nil || w.transfer != nil {
		d.lastAccess[s.index] = w.seq
	}
	s.after = s.after.join(d.known)
	if w.wait != nil {
		s.after = s.after.join(w.wait.work.before).with(w.wait.work)
	}
	w.before, w.learned = s.after, d.learned
	s.after = s.after.with(w)
	s.queue, s.latest = append(s.queue, w), w
	w.register()
	d.queued++
	d.queuedBytes += w.kept()
	d.heads = nil
	for d.lost == nil && (d.queued > maxQueued || d.queuedBytes > maxQueuedBytes) {
		d.step()
	}
	return d.lost
}

// register makes a work a user of the memory that it is known to use.
func (w *work) register() {
	if l := w.launch; l != nil {
		for s := range l.mentions {
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
			d.copies = append(slices.DeleteFunc(d.copies, d.known.include), w)
		}
	}
}

// kept is how much host memory a work keeps.
func (w *work) kept() int {
	if w.transfer == nil {
		return 0
	}
	return len(w.transfer.host) + len(w.transfer.sent)
}

// pass brings all streams beyond the events that they can pass.
func (d *Device) pass() {
	for again := true; again; {
		again = false
		for _, s := range d.streams {
			for s != nil && len(s.queue) > 0 && s.passes(s.queue[0]) {
				d.finish(s.queue[0])
				again = true
			}
		}
	}
}

// passes reports whether a stream gets by a work by itself.
func (s *stream) passes(w *work) bool {
	switch {
	case w.record != nil:
		s.learn(w.learned)
		m := w.record
		m.reached, m.at, m.learned, m.era = true, s.dev.clock, s.learned, s.dev.era
		return true
	case w.wait != nil && w.wait.reached:
		s.learn(w.learned)
		if w.wait.era == s.dev.era {
			s.learn(w.wait.learned)
		}
		return true
	}
	return false
}

// finish takes the work that a stream is at off its queue.
func (d *Device) finish(w *work) {
	w.done = true
	w.stream.queue = w.stream.queue[1:]
	d.queued--
	d.queuedBytes -= w.kept()
	d.heads = nil
}

// ready lists the works that can begin or go on, by the index of their
// stream: one of each stream at most.
func (d *Device) ready() []*work {
	if d.heads == nil {
		d.pass()
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

// await waits until a work is done: it takes steps, of whatever work can go on.
// Between any two of them it looks at ctx. The device is held, but others get
// their turn now and then.
func (d *Device) await(ctx context.Context, w *work) error {
	for steps := 1; ; steps++ {
		if d.ready(); w.done {
			d.learn(w)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if steps%stepsHeld == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			if err := d.use(); err != nil {
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

// stepsHeld is how many steps a host that waits takes at a time.
const stepsHeld = 1 << 8

// learn notes that the host has waited for a work. Once it has for all that
// access memory, nothing that was done is concurrent with anything to come.
func (d *Device) learn(w *work) {
	d.known = d.known.join(w.before.with(w))
	d.hostMayWrite()
	if d.views == nil {
		return
	}
	learned := w.stream.learned
	if w.record != nil && w.record.era == d.era {
		learned = w.record.learned
	}
	d.learned = both(d.learned, learned)
	if d.queued > 0 {
		return
	}
	for i, n := range d.lastAccess {
		if d.known.at(i) < n {
			return
		}
	}
	d.views.forget()
	d.era++
	d.learned = nil
	for _, s := range d.streams {
		if s != nil {
			s.learned = nil
		}
	}
}

// users keeps the last work of each stream that used something.
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

// unfinished is a work among the users that the host has not waited for, if
// there is one: that it happens to be done does not count.
func (d *Device) unfinished(u users) *work {
	i := slices.IndexFunc(u, func(w *work) bool { return !d.known.include(w) })
	if i < 0 {
		return nil
	}
	return u[i]
}
