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
	run func(t testing.TB, b *trialRun) string
}

// A trialRun runs a trial on rewritten kernels.
type trialRun struct {
	rewrite func(file, ptx string) string
	mu      sync.Mutex
	devices []device.Device
	ended   bool
}

// addDevice records a device, so that it can be closed during a trial that does not end.
func (b *trialRun) addDevice(dev device.Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.devices = append(b.devices, dev)
	if b.ended {
		dev.Close()
	}
}

// closeDevices closes all devices: a trial that still uses one fails.
func (b *trialRun) closeDevices() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, dev := range b.devices {
		dev.Close()
	}
	b.devices = nil
}

// ScheduleTrial returns the trial of programs under random schedules.
func ScheduleTrial[K weft.Key, V weft.Value](name string, cfg dst.Config[K, V]) Trial {
	return Trial{name, func(_ testing.TB, b *trialRun) string {
		cfg := cfg
		cfg.Rewrite, cfg.NoShrink = b.rewrite, true
		wrap := cfg.Wrap
		cfg.Wrap = func(dev device.Device) device.Device {
			b.addDevice(dev)
			if wrap != nil {
				dev = wrap(dev)
			}
			return limitMemory(dev)
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

// DeviceTrial returns the trial of a test on a simulated GPU. The test must not rely on its own
// context or on subtests.
func DeviceTrial(name string, opts sim.Options, test func(t testing.TB, dev device.Device)) Trial {
	return Trial{name, func(t testing.TB, b *trialRun) string {
		opts := opts
		opts.Rewrite, opts.Memory = b.rewrite, maxMemory
		if opts.Budget == 0 {
			opts.Budget = budget
		}
		failed, log := conformance.Report(t, func(t testing.TB) {
			dev, err := sim.Open(&opts)
			if err != nil {
				t.Fatal(err)
			}
			b.addDevice(dev)
			test(t, dev)
		})
		if !failed {
			return ""
		}
		return log
	}}
}

// trialTimeout limits the time of a trial. Trials of correct kernels take seconds.
const trialTimeout = time.Minute

// judge runs a trial on kernels, for at most a given time.
func (x *Trial) judge(t testing.TB, rewrite func(file, ptx string) string, timeout time.Duration) (failure string) {
	b := &trialRun{rewrite: rewrite}
	defer b.closeDevices()
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
	case <-time.After(timeout):
		return fmt.Sprintf("no end after %v", timeout)
	}
}
