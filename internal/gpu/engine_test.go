package gpu_test

import (
	"context"
	"errors"
	"github.com/weftgo/weft/internal/op"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// memory is a generation of a structure without kernels.
type memory struct{ core.Lines }

// plain is a structure that launches copies and fills instead of kernels.
type plain struct {
	t      *testing.T
	look   func(s *device.Stream, b *batch.Batch, hits device.Ptr) error
	change func(s *device.Stream, c *gpu.Change) error
	export func(s *device.Stream, lo, hi uint32, out *batch.Batch, count device.Ptr) error
}

func (p *plain) Lookup(s *device.Stream, _ core.Parts, b *batch.Batch, hits device.Ptr) error {
	return p.look(s, b, hits)
}

func (p *plain) Change(s *device.Stream, _ core.Parts, c *gpu.Change) (bool, error) {
	return false, p.change(s, c)
}

func (p *plain) ResolveWinners(*device.Stream, core.Parts, *gpu.Change, *gpu.Winners) error {
	p.t.Error("duplicates are resolved where there are none")
	return nil
}

func (p *plain) Export(s *device.Stream, _ core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	return p.export(s, lo, hi, out, count)
}

// openEngine opens an engine of a plain structure.
func openEngine(t *testing.T, dev device.Device) (*gpu.Engine, *plain) {
	t.Helper()
	e, p := new(gpu.Engine), &plain{t: t}
	if err := e.OpenEngine(dev, widths, 3, p); err != nil {
		t.Fatal(errors.Join(err, e.Close()))
	}
	if _, err := e.Start(lines(t, e)); err != nil {
		t.Fatal(errors.Join(err, e.Close()))
	}
	t.Cleanup(func() {
		_, err := e.Leases.Close()
		if err := errors.Join(err, e.Close(), e.Leases.Free()); err != nil {
			t.Error(err)
		}
	})
	return e, p
}

// lines returns memory with undefined content.
func lines(t *testing.T, e *gpu.Engine) *memory {
	t.Helper()
	l, err := core.NewLines(e.Dev, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Stream.Fill(l.Buf.Ptr, 5, l.Buf.Size/4), e.Stream.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	return &memory{l}
}

// empty checks that memory is all ones, with a tally of zeros.
func empty(t *testing.T, e *gpu.Engine, m *memory) {
	t.Helper()
	got := make([]uint32, m.Buf.Size/4)
	if err := e.Stream.CopyOut(t.Context(), device.Bytes(got), m.Buf.Ptr); err != nil {
		t.Fatal(err)
	}
	for i, w := range got {
		if want := ^uint32(0); i < 5*32 && w != want || i >= 5*32 && w != 0 {
			t.Fatalf("word %d is %#x", i, w)
		}
	}
}

func simulated(t *testing.T) device.Device {
	t.Helper()
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return devicetest.Checked(t, s)
}

// thirds returns a change in which every third operation fails, in thread order. want receives
// these operations.
func thirds(want *[]uint32) func(s *device.Stream, c *gpu.Change) error {
	return func(s *device.Stream, c *gpu.Change) error {
		for i := c.N - 1; i >= 0; i-- {
			if (int(c.Args.First)+i)%3 != 0 {
				continue
			}
			if c.Args.Failed.Items != 0 {
				if err := s.Fill(c.Args.Failed.Items+device.Ptr(4*len(*want)), c.Args.First+uint32(i), 1); err != nil {
					return err
				}
			}
			*want = append(*want, c.Args.First+uint32(i))
		}
		return s.Fill(c.Args.Failed.Count, uint32(len(*want)), 1)
	}
}

func TestChangeReportsFailures(t *testing.T) {
	dev := simulated(t)
	e, p := openEngine(t, dev)
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, n := range []int{0, 1, 2, 100, 1000} {
		keys, vals := make([]uint32, n), make([]uint32, n)
		host := &batch.Batch{N: n, Kind: op.Put, Flags: batch.Order, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}}
		on, err := device.Upload(s, keys)
		if err != nil {
			t.Fatal(err)
		}
		there := &batch.Batch{N: n, Kind: op.Put, Flags: batch.Order | batch.Report, Columns: batch.Columns{batch.Keys: batch.InputOn(on), batch.Vals: batch.InputOn(on)}}
		for stream, b := range map[*device.Stream]*batch.Batch{nil: host, s: there} {
			var want []uint32
			takes := thirds(&want)
			p.change = func(s *device.Stream, c *gpu.Change) error {
				// 5<<32|5 live and used slots
				return errors.Join(takes(s, c), s.Fill(e.Parts().(*memory).TallyPtr(), 5, 4))
			}
			// A batch from the host returns the counters.
			used := uint64(5<<32 | 5)
			if stream != nil {
				used = e.Used() + uint64(n)
			} else if n == 0 {
				used = e.Used()
			}
			done, failed, err := e.Change(t.Context(), stream, b)
			slices.Sort(want)
			if done != n || err != nil || !slices.Equal(failed, want) || len(want) != (n+2)/3 {
				t.Errorf("%d operations: %d done, failed are %v, want %v; %v", n, done, failed, want, err)
			}
			if e.Used() != used {
				t.Errorf("%d operations may have used %d slots, want %d", n, e.Used(), used)
			}
			if now, err := e.ReadCounters(t.Context()); err != nil || n > 0 && now != (core.Counters{Live: 5<<32 | 5, Used: 5<<32 | 5}) {
				t.Errorf("%d operations: %+v, %v", n, now, err)
			}
		}
		// Without a report, failures are counted until the next read.
		there.Flags = batch.Order
		var want []uint32
		p.change = thirds(&want)
		if _, failed, err := e.Change(t.Context(), s, there); failed != nil || err != nil {
			t.Error(failed, err)
		}
		if _, err := e.ReadCounters(t.Context()); err != nil { // waits
			t.Error(err)
		}
		for _, lost := range []int{len(want), 0} {
			if got, err := e.ReadDropped(t.Context()); got != lost || err != nil {
				t.Errorf("%d operations: %d lost, want %d: %v", n, got, lost, err)
			}
		}
		if err := on.Free(); err != nil {
			t.Error(err)
		}
	}
}

// A launch gets the flags of its batch, except flags that kernels do not use. A mixed batch has no
// order.
func TestChangeFlags(t *testing.T) {
	e, p := openEngine(t, simulated(t))
	keys, kinds := make([]uint32, 3), make([]weft.OpKind, 3)
	for _, c := range []struct{ flags, want batch.Flags }{{batch.Order | batch.Reuse, batch.Reuse}, {batch.Multi, batch.Multi}, {0, 0}} {
		var got uint32
		p.change = func(s *device.Stream, c *gpu.Change) error {
			got = c.Args.Flags
			return s.Fill(c.Args.Failed.Count, 0, 1)
		}
		b := &batch.Batch{N: 3, Flags: c.flags, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Kinds: batch.Input(kinds)}}
		if _, _, err := e.Change(t.Context(), nil, b); err != nil || got != uint32(c.want) {
			t.Errorf("flags %b become %b, want %b; %v", c.flags, got, c.want, err)
		}
	}
}

func TestLookCarriesColumns(t *testing.T) {
	dev := simulated(t)
	e, p := openEngine(t, dev)
	keys, vals, found := []uint32{1, 2, 3}, make([]uint32, 3), make([]bool, 3)
	b := &batch.Batch{N: 3, Flags: batch.Multi, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Output(vals), batch.OK: batch.Output(found)}}
	p.look = func(s *device.Stream, part *batch.Batch, hits device.Ptr) error {
		if part.N != 3 || part.Flags != batch.Multi {
			t.Errorf("%+v", part)
		}
		c := part.Columns
		return errors.Join(s.Copy(c[batch.Vals].Ptr, c[batch.Keys].Ptr, 12), s.Fill(c[batch.OK].Ptr, 0x00010001, 1), s.Fill(hits, 2, 1))
	}
	for range 2 { // the counter begins at zero again
		done, hits, err := e.Lookup(t.Context(), nil, e.Leases.Current(), b, 0)
		if done != 3 || hits != 2 || err != nil || !slices.Equal(vals, keys) || !slices.Equal(found, []bool{true, false, true}) {
			t.Errorf("%d, %d, %v, %v, %v", done, hits, err, vals, found)
		}
	}
	if _, _, err := e.Lookup(t.Context(), nil, e.Leases.Current(), &batch.Batch{}, 0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, hits, err := e.Lookup(ctx, nil, e.Leases.Current(), b, 0); done != 0 || hits != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %d, %d, %v", done, hits, err)
	}
	// An empty batch ignores an ended context.
	if _, _, err := e.Lookup(ctx, nil, e.Leases.Current(), &batch.Batch{}, 0); err != nil {
		t.Error(err)
	}
}

func TestPresent(t *testing.T) {
	dev := simulated(t)
	e, p := openEngine(t, dev)
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	on, err := device.Upload(s, make([]uint32, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer on.Free()
	p.look = func(s *device.Stream, b *batch.Batch, hits device.Ptr) error {
		if b.Columns[batch.OK].Given() || b.Columns[batch.Vals].Given() || !b.Columns[batch.Keys].Given() {
			t.Errorf("%+v", b)
		}
		return s.Fill(hits, uint32(b.N+1), 1)
	}
	b := &batch.Batch{N: 4, Columns: batch.Columns{batch.Keys: batch.InputOn(on), batch.OK: batch.InputOn(on)}}
	if n, err := e.CountPresent(t.Context(), s, b); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// Counters are read if changes have been submitted since.
func TestCounters(t *testing.T) {
	e, _ := openEngine(t, simulated(t))
	at := e.Parts().(*memory).TallyPtr()
	set := func(s *device.Stream, live uint32) error {
		return errors.Join(s.Fill(at, live, 1), s.Fill(at+8, live+1, 1))
	}
	for live := range uint32(3) {
		if err := e.RunSync(t.Context(), func(s *device.Stream) error { return set(s, live) }); err != nil {
			t.Fatal(err)
		}
		if live == 2 { // without the engine's knowledge
			if _, err := e.ReadCounters(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(set(e.Stream, 77), e.Stream.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		c, err := e.ReadCounters(t.Context())
		if err != nil || c.Live != uint64(live) || c.Used != uint64(live+1) || e.Used() != c.Used {
			t.Errorf("%+v, used %d, want %d live; %v", c, e.Used(), live, err)
		}
	}
}

// A move without overflow replaces the memory. A move that overflows or fails keeps the old memory
// and frees the new memory.
func TestMove(t *testing.T) {
	dev := simulated(t)
	e, _ := openEngine(t, dev)
	broken := errors.New("broken")
	for _, c := range []struct {
		lost int
		err  error
	}{{0, nil}, {4, nil}, {0, broken}} {
		from, to := e.Parts(), lines(t, e)
		before := devicetest.Live(dev)
		lost, err := e.Move(t.Context(), to, func(s *device.Stream, old core.Parts, lost device.Ptr) error {
			if old != from {
				t.Errorf("moves from %p, want %p", old, from)
			}
			empty(t, e, to)
			return errors.Join(c.err, s.Fill(lost, uint32(c.lost), 1))
		})
		if lost != c.lost || !errors.Is(err, c.err) {
			t.Errorf("%d lost, want %d: %v", lost, c.lost, err)
		}
		moved := c.lost == 0 && c.err == nil
		if (e.Parts() == core.Parts(to)) != moved {
			t.Errorf("%+v: moved %v", c, !moved)
		}
		if now := devicetest.Live(dev); now.Buffers != before.Buffers-1 {
			t.Errorf("%+v: %d buffers, before %d with the new one", c, now.Buffers, before.Buffers)
		}
	}
}

// Export returns the number of rows even if they do not fit.
func TestExport(t *testing.T) {
	e, p := openEngine(t, simulated(t))
	if units, rows := e.Extent(e.Leases.Current()); units != 5 || rows != 3 {
		t.Error(units, rows)
	}
	for _, n := range []uint32{0, 3, 9} {
		p.export = func(s *device.Stream, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
			if lo != 1 || hi != 4 || out.N != 6 {
				t.Errorf("[%d,%d) to %d rows", lo, hi, out.N)
			}
			return errors.Join(s.Fill(out.Columns[batch.Keys].Ptr, 7, 6), s.Fill(count, n, 1))
		}
		keys, vals := make([]uint32, 6), make([]uint32, 6)
		out := &batch.Batch{N: 6, Columns: batch.Columns{batch.Keys: batch.Output(keys), batch.Vals: batch.Output(vals)}}
		got, err := e.Export(t.Context(), e.Leases.Current(), 1, 4, out)
		if got != int(n) || err != nil || keys[5] != 7 {
			t.Errorf("%d rows, want %d: %v, %v", got, n, keys, err)
		}
	}
}

// Add adds the number of pairs to the caller's counter, or subtracts it.
func TestAdd(t *testing.T) {
	dev := simulated(t)
	e, _ := openEngine(t, dev)
	to, err := device.Upload(e.Stream, []uint64{100, 7})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Free()
	at := e.Parts().(*memory).TallyPtr()
	if err := e.RunSync(t.Context(), func(s *device.Stream) error { return s.Fill(at, 30, 1) }); err != nil {
		t.Fatal(err)
	}
	var got [2]uint64
	for _, c := range []struct {
		negate bool
		want   uint64
	}{{true, 70}, {true, 40}, {false, 70}} {
		if err := errors.Join(e.AddPairs(e.Stream, to, c.negate), to.CopyTo(t.Context(), e.Stream, got[:])); err != nil {
			t.Fatal(err)
		}
		if got != [2]uint64{c.want, 7} {
			t.Errorf("%d, want %d", got, c.want)
		}
	}
}

// A change on another stream waits for the previous change, unless a successful wait for that
// change precedes it.
func TestChangesWait(t *testing.T) {
	dev := simulated(t)
	e, _ := openEngine(t, dev)
	submit := func(*device.Stream) error { return nil }
	var streams [2]*device.Stream
	for i := range streams {
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		streams[i] = s
	}
	change := func(s *device.Stream) { // not waited for
		t.Helper()
		if err := e.SubmitVisible(s, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(s *device.Stream) bool {
		t.Helper()
		fired := devicetest.FailNext(dev, devicetest.OpWait)
		err := e.SubmitVisible(s, func() error { return nil })
		devicetest.ClearFailures(dev)
		if fired() != errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		return fired()
	}
	change(streams[0])
	if waits(streams[0]) || !waits(streams[1]) {
		t.Error("a change does not wait for the one before just on another stream")
	}
	if err := e.RunSync(t.Context(), submit); err != nil {
		t.Fatal(err)
	}
	if waits(streams[1]) {
		t.Error("a change waits for what has been waited for")
	}
	devicetest.FailNext(dev, devicetest.OpWait)
	if err := e.RunSync(t.Context(), submit); !errors.Is(err, device.ErrMemory) {
		t.Fatal(err)
	}
	if !waits(streams[0]) {
		t.Error("a change does not wait for one that nobody has waited for")
	}
}
