package dst

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// Try runs a test on a device to which it applies wrap. It returns the failure that the test
// detects, or nil.
type Try func(wrap func(device.Device) device.Device) error

// Try returns a Try that runs the programs of cfg.
func (cfg Config[K, V]) Try() Try {
	return func(wrap func(device.Device) device.Device) error {
		cfg := cfg
		cfg.Wrap, cfg.NoShrink = wrap, true
		if f, _ := Find(cfg); f != nil {
			return f.Err
		}
		return nil
	}
}

// SimTry returns a Try that runs the test try on a simulated GPU, under the schedule of a seed.
func SimTry(t testing.TB, seed uint64, try func(t testing.TB, dev device.Device, seed uint64)) Try {
	return func(wrap func(device.Device) device.Device) error {
		// Memory is small, so that unbounded growth caused by the omission fails early.
		simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Races: true, Memory: 1 << 25})
		if err != nil {
			return err
		}
		failed, log := conformance.Report(t, func(t testing.TB) { try(t, wrap(simulated), seed) })
		if err := simulated.Close(); failed || err != nil {
			return errors.Join(errors.New(log), err)
		}
		return nil
	}
}

// Omit omits each call in a folder with which the host orders streams or waits for them, one at a
// time. It fails the test if no try detects the omission, or if a try fails without an omission.
// needless lists omissions that need not be detected, with the reasons. A key consists of the
// source of a call and the calling function, as in [devicetest.Call]: "s.Sync(ctx) in
// (*engine).flush".
func Omit(t *testing.T, folder string, needless map[string]string, tries ...Try) {
	t.Helper()
	calls, err := devicetest.ListCalls(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 {
		t.Skip("the sources are not here")
	}
	nCalls := make([]map[devicetest.Site]int, len(tries)) // number of calls in each try
	for i, try := range tries {
		o := devicetest.Omit()
		if err := try(o.Wrap); err != nil {
			t.Fatalf("try %d, nothing left out: %v", i, err)
		}
		nCalls[i] = o.Seen()
	}
	reasons := map[string]bool{}
	for _, c := range calls {
		name := omission(c)
		if needless[name] != "" {
			reasons[name] = true
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := devicetest.Omit(c.Site)
			// Tries that make the call come first, because no other deterministic try detects the
			// omission.
			for _, makes := range []bool{true, false} {
				for i, try := range tries {
					if nCalls[i][c.Site] > 0 == makes && detects(t, try, o) {
						return
					}
				}
			}
			t.Errorf("%v: nothing notices that it is left out, in %d calls", c, o.Seen()[c.Site])
		})
	}
	for name := range needless {
		if !reasons[name] {
			t.Errorf("there is no call %q", name)
		}
	}
}

// JudgedElsewhere returns the calls in a folder that other tests judge, for the argument needless
// of [Omit]. These are all calls except those for which included returns true. The test fails if
// included returns true for no call.
func JudgedElsewhere(t *testing.T, folder, reason string, included func(c devicetest.Call) bool) map[string]string {
	t.Helper()
	calls, err := devicetest.ListCalls(folder)
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]string{}
	for _, c := range calls {
		if !included(c) {
			judged[omission(c)] = reason
		}
	}
	if len(calls) > 0 && !slices.ContainsFunc(calls, included) {
		t.Errorf("no call in %s is included", folder)
	}
	return judged
}

func omission(c devicetest.Call) string { return fmt.Sprintf("%s in %s", c.Text, c.Func) }

// detects runs a try with an omission and reports whether it fails. A panic counts as a failure.
func detects(t *testing.T, try Try, o *devicetest.Omission) (yes bool) {
	defer func() {
		if r := recover(); r != nil {
			t.Logf("panic: %v", r)
			yes = true
		}
	}()
	err := try(o.Wrap)
	if err != nil {
		t.Log(err)
	}
	return err != nil
}

// Overlapping returns the default shapes with overlapping streams.
func Overlapping() []Shape { return overlapping(Shapes) }

// OverlappingAtomic returns the shapes with overlapping streams for ordered maps with atomic
// batches ([AtomicBatches]).
func OverlappingAtomic() []Shape { return overlapping(atomicShapes) }

func overlapping(shapes []Shape) []Shape {
	return slices.DeleteFunc(slices.Clone(shapes), func(s Shape) bool { return s.Streams == 0 })
}

// ClosedStreamTry returns a Try that makes calls on a closed stream of a CPU. The calls must return
// errors.
func ClosedStreamTry[S interface{ Close() error }](open func(dev device.Device) (S, error), calls func(x S, s *device.Stream, keys device.Slice[uint32]) map[string]error) Try {
	return func(wrap func(device.Device) device.Device) error {
		host, err := cpu.Open(nil)
		if err != nil {
			return err
		}
		defer host.Close()
		dev := wrap(host)
		x, err := open(dev)
		if err != nil {
			return err
		}
		defer x.Close()
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		keys, err := device.Upload(s, make([]uint32, 10))
		if err != nil {
			return err
		}
		defer keys.Free()
		if err := s.Close(); err != nil {
			return err
		}
		for name, err := range calls(x, s, keys) {
			if !errors.Is(err, device.ErrClosed) {
				return fmt.Errorf("%s on a closed stream: %v", name, err)
			}
		}
		return nil
	}
}

// MapClosedStreamTry returns a ClosedStreamTry for maps.
func MapClosedStreamTry[M OnMap[uint32, uint32]](open func(dev device.Device) (M, error)) Try {
	return ClosedStreamTry(open, func(m M, s *device.Stream, keys device.Slice[uint32]) map[string]error {
		return map[string]error{"PutOn": m.PutOn(s, keys, keys), "GetOn": m.GetOn(s, keys, keys, device.Slice[bool]{})}
	})
}

// IterateAfterChanges returns a Try that requires an iteration to see the changes submitted to a
// stream before it. open must make maps with capacity for a thousand keys.
func IterateAfterChanges[M OnMap[uint32, uint32]](open func(dev device.Device) (M, error)) Try {
	const n = 700
	return func(wrap func(device.Device) device.Device) error {
		for seed := range uint64(5) {
			simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed})
			if err != nil {
				return err
			}
			defer simulated.Close()
			dev := wrap(simulated)
			m, err := open(dev)
			if err != nil {
				return err
			}
			defer m.Close()
			seen, err := putAndIterate(dev, m, n)
			if err == nil && seen != n {
				err = fmt.Errorf("%d of %d keys seen", seen, n)
			}
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
		return nil
	}
}

func putAndIterate(dev device.Device, m OnMap[uint32, uint32], n int) (seen int, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	host := make([]uint32, n)
	for i := range host {
		host[i] = uint32(i)
	}
	keys, err := device.Upload(s, host)
	if err != nil {
		return 0, err
	}
	if err := m.PutOn(s, keys, keys); err != nil {
		return 0, err
	}
	for p, e := range m.Pages(context.Background()) {
		seen, err = seen+len(p.Keys), errors.Join(err, e)
	}
	return seen, errors.Join(err, m.Sync(context.Background()), keys.Free())
}

// HostAfterStreams runs a host batch after a batch on a stream and checks the results. Then it
// deletes ranges on the stream.
func HostAfterStreams(ctx context.Context, m interface {
	OnMap[uint32, uint32]
	OrderedMap[uint32, uint32]
	Check(ctx context.Context) error
}, s *device.Stream) (err error) {
	const n = 60
	keys := conformance.Sequence[uint32](0, n)
	on, err := device.Upload(s, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Sync(ctx), on.Free()) }()
	for range 2 {
		for range 2 { // its memory is freed while it runs
			if err := m.PutOn(s, on, on); err != nil {
				return err
			}
		}
		vals, deleted := make([]uint32, n), make([]bool, n)
		if hits, err := m.Get(ctx, keys, vals, nil); err != nil || hits != n || !slices.Equal(vals, keys) {
			return fmt.Errorf("%d hits: %v: %w", hits, vals, err)
		}
		if nDeleted, err := m.Delete(ctx, keys[n/2:], deleted[n/2:]); err != nil || nDeleted != n/2 || slices.Contains(deleted[n/2:], false) {
			return fmt.Errorf("%d keys deleted: %v, %v", nDeleted, deleted[n/2:], err)
		}
		more := conformance.Sequence[uint32](n, 3*n) // these keys need more memory
		if _, err := m.Put(ctx, more, more); err != nil {
			return err
		}
		lo, hi, removed := on.Sub(0, 2), on.Sub(n/4, n/4+2), make([]uint32, 2)
		counts, err := device.Upload(s, removed)
		if err != nil {
			return err
		}
		err = m.DeleteRangeOn(s, lo, hi, counts)
		err = errors.Join(err, counts.CopyTo(ctx, s, removed), s.Sync(ctx), counts.Free())
		if err != nil || removed[0] != n/4+1 || removed[1] != 1 {
			return fmt.Errorf("%d pairs of ranges deleted: %w", removed, err)
		}
		if err := errors.Join(m.Sync(ctx), m.Check(ctx)); err != nil || m.Len() != n/2-n/4-2+3*n {
			return fmt.Errorf("%d pairs: %w", m.Len(), err)
		}
	}
	return nil
}
