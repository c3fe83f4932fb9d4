package mutate

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// A Trial is a test that judges kernels.
type Trial struct {
	Name string
	// run returns the failure, or "".
	run func(t testing.TB, b *bench) string
}

// A bench runs trials of rewritten kernels.
type bench struct {
	rewrite func(file, ptx string) string
	mu      sync.Mutex
	devices []device.Device
	ended   bool
}

// note records a device, so that it can be closed during a trial that does not end.
func (b *bench) note(dev device.Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.devices = append(b.devices, dev)
	if b.ended {
		dev.Close()
	}
}

// end closes all devices: a trial that still uses one fails.
func (b *bench) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, dev := range b.devices {
		dev.Close()
	}
	b.devices = nil
}

// Schedules returns the trial of programs under random schedules.
func Schedules[K weft.Key, V weft.Value](name string, cfg dst.Config[K, V]) Trial {
	return Trial{name, func(_ testing.TB, b *bench) string {
		cfg := cfg
		cfg.Rewrite, cfg.Whole = b.rewrite, true
		wrap := cfg.Wrap
		cfg.Wrap = func(dev device.Device) device.Device {
			b.note(dev)
			if wrap != nil {
				dev = wrap(dev)
			}
			return limit(dev)
		}
		f, tried := dst.Find(cfg)
		if f == nil {
			return ""
		}
		return fmt.Sprintf("program %d: %v", tried.Programs, f.Err)
	}}
}

// budget is more warp instructions than any launch of a trial needs.
const budget = 1 << 24

// OnDevice returns the trial of a test on a simulated GPU. The test must not rely on its own
// context or on subtests.
func OnDevice(name string, opts sim.Options, test func(t testing.TB, dev device.Device)) Trial {
	return Trial{name, func(t testing.TB, b *bench) string {
		opts := opts
		opts.Rewrite, opts.Memory = b.rewrite, memory
		if opts.Budget == 0 {
			opts.Budget = budget
		}
		failed, log := conformance.Report(t, func(t testing.TB) {
			dev, err := sim.Open(&opts)
			if err != nil {
				t.Fatal(err)
			}
			b.note(dev)
			test(t, dev)
		})
		if !failed {
			return ""
		}
		return log
	}}
}

// patience limits the time of a trial. Trials of correct kernels take seconds.
const patience = time.Minute

// judge runs a trial on kernels, for at most a given time.
func (x *Trial) judge(t testing.TB, rewrite func(file, ptx string) string, most time.Duration) (failure string) {
	b := &bench{rewrite: rewrite}
	defer b.end()
	done := make(chan string, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Sprintf("panic: %v", v)
			}
		}()
		done <- x.run(t, b)
	}()
	select {
	case failure := <-done:
		return failure
	case <-time.After(most):
		return fmt.Sprintf("no end after %v", most)
	}
}
