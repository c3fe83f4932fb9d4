package dst

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
)

// A Try runs something on a device that wrap is put around, and reports what it
// noticed: nil is nothing.
type Try func(wrap func(device.Device) device.Device) error

// Try tries the programs of a configuration.
func (cfg Config[K, V]) Try() Try {
	return func(wrap func(device.Device) device.Device) error {
		cfg := cfg
		cfg.Wrap, cfg.Whole = wrap, true
		if f, _ := Find(cfg); f != nil {
			return f.Err
		}
		return nil
	}
}

// Omit leaves out each call in a folder by which the host orders streams or
// waits for them, one at a time, and fails the test if no try notices. needless
// gives the reason why nobody need notice, by the source of the call and its
// function, as [devicetest.Call] has them: "s.Sync(ctx) in (*engine).flush".
func Omit(t *testing.T, folder string, needless map[string]string, tries ...Try) {
	t.Helper()
	calls, err := devicetest.ListCalls(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 {
		t.Skip("the sources are not here")
	}
	reasons := map[string]bool{}
	for _, c := range calls {
		name := fmt.Sprintf("%s in %s", c.Text, c.Func)
		if needless[name] != "" {
			reasons[name] = true
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := devicetest.Omit(c.Site)
			if !slices.ContainsFunc(tries, func(try Try) bool { return noticed(t, try, o) }) {
				t.Errorf("%v: nothing notices that it is left out, in %d calls", c, o.Seen()[c.Site])
			}
		})
	}
	for name := range needless {
		if !reasons[name] {
			t.Errorf("there is no call %q", name)
		}
	}
}

// noticed runs a try. A panic is noticed, too.
func noticed(t *testing.T, try Try, o *devicetest.Omission) (yes bool) {
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

// Overlapping are those of the default shapes in which streams overlap.
func Overlapping() []Shape {
	return slices.DeleteFunc(slices.Clone(Shapes), func(s Shape) bool { return s.Streams == 0 })
}

// OnClosedStream tries calls on a stream of a CPU that is closed: they are
// refused.
func OnClosedStream[S interface{ Close() error }](open func(dev device.Device) (S, error), calls func(x S, s *device.Stream, keys device.Slice[uint32]) map[string]error) Try {
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
		for what, err := range calls(x, s, keys) {
			if !errors.Is(err, device.ErrClosed) {
				return fmt.Errorf("%s on a closed stream: %v", what, err)
			}
		}
		return nil
	}
}
