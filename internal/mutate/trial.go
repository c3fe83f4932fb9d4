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

// Trial is a test that judges rewritten kernels.
type Trial struct {
	Name string
	// run returns the failure, or "" if the trial passes.
	run func(t testing.TB, b *trialRun) string
}

// trialRun is one run of a trial on rewritten kernels.
type trialRun struct {
	rewrite func(file, ptx string) string
	mu      sync.Mutex
	devices []device.Device
	ended   bool
}

// addDevice records a device, so that closeDevices can close it.
func (b *trialRun) addDevice(dev device.Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.devices = append(b.devices, dev)
	if b.ended {
		dev.Close()
	}
}

// closeDevices closes all devices, so that a trial that is still running fails.
func (b *trialRun) closeDevices() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, dev := range b.devices {
		dev.Close()
	}
	b.devices = nil
}

// ScheduleTrial returns a trial that runs programs under random schedules.
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

// budget is larger than the number of warp instructions of any launch in a trial.
const budget = 1 << 24

// DeviceTrial returns a trial that runs a test on a simulated GPU. The test must not use its own
// context or subtests.
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

// trialTimeout limits the duration of a trial. On correct kernels trials take seconds.
const trialTimeout = time.Minute

// judge runs a trial on rewritten kernels, for at most timeout. It returns the failure, or "".
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
