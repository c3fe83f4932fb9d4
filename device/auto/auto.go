// Package auto opens a device by name, or the best one present, and reports why it skipped the
// others.
//
// # Choices
//
//   - "auto" or "": the GPU with the most free memory, or the CPU if no GPU can be used.
//   - "cpu": all cores of the host.
//   - "cuda": the GPU with the most free memory, without fallback.
//   - "cuda:N": the GPU of index N, in the numbering of CUDA_VISIBLE_DEVICES.
//   - "sim", "sim:SEED", "sim:SCHEDULER:SEED": a simulated GPU; see
//     [github.com/weftgo/weft/device/sim.Parse]. It is slow, meant for tests, and never chosen by
//     "auto". The program must import github.com/weftgo/weft/device/sim, if only as _.
//
// # Caveats
//
//   - "auto" and "cuda" open every GPU for a moment to compare free memory. This takes some tenths
//     of a second for each GPU. To avoid it, name one GPU.
//   - A driver that does not answer within a minute counts as broken. Its call cannot be stopped
//     and keeps a thread.
//   - Programs that import this package are linked with the system's libc; see package cuda.
package auto

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/device/internal/simulator"
)

// Reason is a device that was not chosen, with the cause.
type Reason struct {
	Choice string // argument with which [Open] opens the device, e.g. "cuda:1"
	Err    error
}

// String returns the choice and the error, without the prefix "cuda: " of the error.
func (r Reason) String() string {
	return r.Choice + ": " + strings.TrimPrefix(r.Err.Error(), "cuda: ")
}

// errLessFree is the reason why a working GPU with less free memory was not chosen.
var errLessFree = errors.New("has less free memory than the GPU that was chosen")

// timeLimit bounds the time that the driver takes to start or to open a GPU. On an idle machine of
// eight GPUs this takes many seconds.
const timeLimit = time.Minute

// sources are the functions that list and open devices. Tests replace them.
type sources struct {
	cpu     func() (device.Device, error)
	gpus    func() ([]device.Properties, error)
	openGPU func(index int) (device.Device, error)
	limit   time.Duration
}

var system = sources{
	cpu:     func() (device.Device, error) { return orNil(cpu.Open(nil)) },
	gpus:    cuda.Devices,
	openGPU: func(index int) (device.Device, error) { return orNil(cuda.Open(index)) },
	limit:   timeLimit,
}

// orNil returns a nil interface instead of an interface that holds a nil pointer.
func orNil[D device.Device](dev D, err error) (device.Device, error) {
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// Open opens the device that choice names; see the package documentation. The reasons list the
// devices that were rejected, and why. They are valid even if Open returns an error.
func Open(choice string) (device.Device, []Reason, error) { return system.open(choice) }

func (s *sources) open(choice string) (device.Device, []Reason, error) {
	name, number, numbered := strings.Cut(choice, ":")
	switch {
	case choice == "" || choice == "auto":
		dev, reasons, err := s.openBest()
		if err != nil {
			dev, err = s.cpu()
		}
		return dev, reasons, err
	case choice == "cpu":
		dev, err := s.cpu()
		return dev, nil, err
	case choice == "cuda":
		return s.openBest()
	case name == "sim":
		if simulator.Open == nil {
			return nil, nil, fmt.Errorf("auto: %w: this program has no simulated GPU %q; add import _ %q",
				device.ErrNoDevice, choice, "github.com/weftgo/weft/device/sim")
		}
		dev, err := simulator.Open(choice)
		return dev, nil, err
	case name == "cuda" && numbered:
		index, err := strconv.Atoi(number)
		if err != nil || index < 0 {
			return nil, nil, fmt.Errorf("auto: %w: %q is not the number of a GPU; write cuda:0 for the first", device.ErrInvalid, number)
		}
		dev, err := s.openIndex(index)
		return dev, nil, err
	}
	return nil, nil, fmt.Errorf("auto: %w: unknown device %q; choose auto, cpu, cuda, cuda:N for GPU number N, or sim for a simulated one", device.ErrInvalid, choice)
}

// openBest opens the GPU with the most free memory. If none opens, it returns the first GPU's
// error.
func (s *sources) openBest() (device.Device, []Reason, error) {
	gpus, err := s.list()
	if err != nil {
		return nil, []Reason{{"cuda", err}}, err
	}
	var (
		best    device.Device
		free    uint64
		reasons []Reason
	)
	reject := func(index int, err error) { reasons = append(reasons, Reason{choiceOf(index), err}) }
	for _, p := range gpus {
		dev, memory, err := s.openWithMemory(p.Index)
		switch {
		case err != nil:
			reject(p.Index, err)
		case best == nil:
			best, free = dev, memory.Free
		case memory.Free > free:
			reject(best.Properties().Index, errors.Join(errLessFree, best.Close()))
			best, free = dev, memory.Free
		default:
			reject(p.Index, errors.Join(errLessFree, dev.Close()))
		}
	}
	if best == nil {
		return nil, reasons, reasons[0].Err
	}
	return best, reasons, nil
}

func choiceOf(index int) string { return fmt.Sprintf("cuda:%d", index) }

// list returns at least one GPU, or an error.
func (s *sources) list() ([]device.Properties, error) {
	gpus, err := runWithTimeout(s.limit, s.gpus, func([]device.Properties) {})
	if err == nil && len(gpus) == 0 {
		err = fmt.Errorf("auto: %w: the driver sees no GPU", device.ErrNoDevice)
	}
	return gpus, err
}

func (s *sources) openIndex(index int) (device.Device, error) {
	return runWithTimeout(s.limit, func() (device.Device, error) { return s.openGPU(index) },
		func(dev device.Device) { dev.Close() })
}

// openWithMemory opens a GPU and reads its memory.
func (s *sources) openWithMemory(index int) (device.Device, device.Memory, error) {
	dev, err := s.openIndex(index)
	if err != nil {
		return nil, device.Memory{}, err
	}
	memory, err := dev.Memory()
	if err != nil {
		return nil, device.Memory{}, errors.Join(err, dev.Close())
	}
	return dev, memory, nil
}

// runWithTimeout calls f and returns its result, or an error if f takes longer than limit. In that
// case, undo releases the result when f returns it later.
func runWithTimeout[T any](limit time.Duration, f func() (T, error), undo func(T)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result) // unbuffered, so that the result is either received or undone
	expired := make(chan struct{})
	go func() {
		v, err := f()
		select {
		case done <- result{v, err}:
		case <-expired:
			if err == nil {
				undo(v)
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-timer.C:
		close(expired)
		var zero T
		return zero, fmt.Errorf("auto: %w: it did not answer within %v; look at nvidia-smi", device.ErrDriver, limit)
	}
}
