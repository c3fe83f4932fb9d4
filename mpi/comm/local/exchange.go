package local

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

func (r *rank) AllToAllV(
	ctx context.Context,
	send comm.Buf,
	sendBytes []int64,
	recv comm.Buf,
	recvBytes []int64,
) error {
	v, err := vote.Parts(ctx, r.rank, r.Size(), send, sendBytes, recv, recvBytes)
	s := slot{send: send}
	if err == nil {
		s.starts = vote.Starts(sendBytes)
		if s.written, err = r.written.mark(send); err != nil {
			v, err = vote.New(ctx, vote.AllToAllV, 0, err)
		}
	}
	all := r.group.slots[r.phase]
	err = r.collective(v, err, s, func(peers []slot) (err error) {
		to := vote.Starts(recvBytes)
		for i := range peers {
			// Each rank begins with a different peer, so that ranks do not all read the same
			// memory.
			peer := (r.rank + i) % len(peers)
			from, n := peers[peer].starts[r.rank], recvBytes[peer]
			if n == 0 {
				continue
			}
			if err := move(recv.Part(to[peer], n), peers[peer].send.Part(from, n), peers[peer].written); err != nil {
				return errors.Join(err, syncStream(recv))
			}
		}
		if peers[r.rank].read, err = r.read.mark(recv); err != nil {
			err = errors.Join(err, syncStream(recv))
		}
		return err
	})
	if err != nil {
		err = errors.Join(err, syncStream(recv))
	}
	if !onGPU(send) {
		return err
	}
	for _, read := range r.group.reads(all) {
		if err != nil { // the caller may free memory that the peer still reads
			_ = read.Sync(context.Background())
		} else {
			err = waitEvent(send.Stream, read)
		}
	}
	return err
}

// reads returns the read events in slots. It locks g.mu, because after an abort a slow rank may
// still be publishing its slot.
func (g *group) reads(slots []slot) (events []*device.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range slots {
		if e := slots[i].read; e != nil {
			events = append(events, e)
		}
	}
	return events
}

// marker holds an event of a GPU that a rank records in each exchange. Peers wait for the recorded
// work before the last barrier of the call, or before they enter the next call.
type marker struct {
	dev   device.Device
	event *device.Event
}

// mark records an event after the work on a buffer's stream. If the host can address the buffer,
// mark waits for that work instead and returns nil.
func (m *marker) mark(b comm.Buf) (*device.Event, error) {
	if !onGPU(b) {
		return nil, syncStream(b)
	}
	if dev := b.Stream.Device(); m.dev != dev {
		if err := m.close(); err != nil {
			return nil, err
		}
		e, err := dev.NewEvent()
		if err != nil {
			return nil, err
		}
		m.dev, m.event = dev, e
	}
	return m.event, b.Stream.Record(m.event)
}

func (m *marker) close() error {
	if m.event == nil {
		return nil
	}
	err := m.event.Close()
	*m = marker{}
	return ignoreClosed(err)
}

// onGPU reports whether a buffer is memory that the host cannot address.
func onGPU(b comm.Buf) bool { return b.Stream != nil && b.On.Len() > 0 && b.On.Host() == nil }

// syncStream waits for all work on the stream of a buffer.
func syncStream(b comm.Buf) error {
	if b.Stream == nil {
		return nil
	}
	return b.Stream.Sync(context.Background())
}

// waitEvent makes a stream wait for an event. If their devices are of different kinds, the host
// waits. A peer that has left the call may have closed its device, which means that its work is
// done.
func waitEvent(s *device.Stream, e *device.Event) error {
	if s.Wait(e) == nil {
		return nil
	}
	return ignoreClosed(e.Sync(context.Background()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, device.ErrClosed) {
		return nil
	}
	return err
}

// stagingBytes is the size of the pieces in which a part is copied through the host.
const stagingBytes = 4 << 20

// move copies a part to a buffer of the same length. Two GPUs copy over the link between them. If
// written is not nil, the part is complete after this event.
func move(to, from comm.Buf, written *device.Event) error {
	if written != nil && onGPU(to) {
		if err := waitEvent(to.Stream, written); err != nil {
			return err
		}
	}
	switch {
	case to.Stream == nil && from.Stream == nil:
		copy(to.Host, from.Host)
		return nil
	case to.Stream == nil:
		return from.Stream.CopyOut(context.Background(), to.Host, from.On.Ptr())
	case from.Stream == nil:
		return to.Stream.CopyIn(to.On.Ptr(), from.Host)
	case to.Stream.Device() == from.Stream.Device():
		return to.Stream.Copy(to.On.Ptr(), from.On.Ptr(), to.Len())
	case from.On.Host() != nil:
		return to.Stream.CopyIn(to.On.Ptr(), from.On.Host())
	case to.On.Host() != nil:
		return from.Stream.CopyOut(context.Background(), to.On.Host(), from.On.Ptr())
	}
	err := to.Stream.CopyPeer(to.On.Ptr(), from.Stream.Device(), from.On.Ptr(), to.Len())
	if !errors.Is(err, device.ErrUnsupported) {
		return err
	}
	piece := make([]byte, min(to.Len(), stagingBytes))
	for at := 0; at < to.Len(); at += len(piece) {
		n := min(len(piece), to.Len()-at)
		if err := from.On.Sub(at, at+n).CopyTo(context.Background(), from.Stream, piece[:n]); err != nil {
			return err
		}
		if err := to.On.Sub(at, at+n).CopyFrom(to.Stream, piece[:n]); err != nil {
			return err
		}
	}
	return nil
}
