package auto

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

// fakeGPU is a GPU with fixed properties and memory.
type fakeGPU struct {
	device.Device
	props   device.Properties
	free    uint64
	openErr error
	memErr  error
	closed  atomic.Int32
}

func (g *fakeGPU) Properties() device.Properties { return g.props }

func (g *fakeGPU) Memory() (device.Memory, error) {
	return device.Memory{Free: g.free, Total: 1000}, g.memErr
}

func (g *fakeGPU) Close() error {
	g.closed.Add(1)
	return nil
}

func machine(gpus ...*fakeGPU) *sources {
	var list []device.Properties
	for i, g := range gpus {
		g.props = device.Properties{Kind: device.CUDA, Index: i, Name: fmt.Sprintf("fake %d", i)}
		list = append(list, g.props)
	}
	return &sources{
		cpu:  func() (device.Device, error) { return orNil(cpu.Open(nil)) },
		gpus: func() ([]device.Properties, error) { return list, nil },
		openGPU: func(i int) (device.Device, error) {
			if i >= len(gpus) {
				return nil, device.ErrNoDevice
			}
			return gpus[i], gpus[i].openErr
		},
		limit: 10 * time.Second,
	}
}

var errBroken = errors.New("broken on purpose")

func TestOpen(t *testing.T) {
	noDriver := machine()
	noDriver.gpus = func() ([]device.Properties, error) { return nil, device.ErrNoDriver }
	four := func() *sources {
		return machine(&fakeGPU{free: 10}, &fakeGPU{free: 900, openErr: device.ErrUnsupported}, &fakeGPU{free: 30}, &fakeGPU{free: 20})
	}
	for _, c := range []struct {
		name    string
		s       *sources
		choice  string
		want    string // kind and index, or the text of the error
		err     error
		reasons []string // prefixes of the reasons
	}{
		{"most free memory", four(), "auto", "cuda 2", nil, []string{"cuda:1: device does not support", "cuda:0: has less", "cuda:3: has less"}},
		{"empty choice", four(), "", "cuda 2", nil, []string{"cuda:1: ", "cuda:0: ", "cuda:3: "}},
		{"cuda", four(), "cuda", "cuda 2", nil, []string{"cuda:1: ", "cuda:0: ", "cuda:3: "}},
		{"cuda by number", four(), "cuda:3", "cuda 3", nil, nil},
		{"cpu", four(), "cpu", "cpu 0", nil, nil},
		{"auto without driver", noDriver, "auto", "cpu 0", nil, []string{"cuda: no GPU driver"}},
		{"cuda without driver", noDriver, "cuda", "no GPU driver", device.ErrNoDriver, []string{"cuda: no GPU driver"}},
		{"auto without GPU", machine(), "auto", "cpu 0", nil, []string{"cuda: auto: no such device"}},
		{"auto with broken GPUs", machine(&fakeGPU{openErr: errBroken}, &fakeGPU{memErr: errBroken}), "auto", "cpu 0", nil,
			[]string{"cuda:0: broken", "cuda:1: broken"}},
		{"cuda with a broken GPU", machine(&fakeGPU{memErr: errBroken}), "cuda", "broken on purpose", errBroken, []string{"cuda:0: broken"}},
		{"no such number", four(), "cuda:7", "no such device", device.ErrNoDevice, nil},
		{"no number", four(), "cuda:", "write cuda:0", device.ErrInvalid, nil},
		{"negative number", four(), "cuda:-1", "write cuda:0", device.ErrInvalid, nil},
		{"unknown", four(), "gpu", "choose auto, cpu, cuda, cuda:N", device.ErrInvalid, nil},
		{"cpu has no number", four(), "cpu:1", "choose auto, cpu", device.ErrInvalid, nil},
		{"sim", four(), "sim:7", `import _ "github.com/weftgo/weft/device/sim"`, device.ErrNoDevice,
			nil}, // opens if this package links device/sim
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, reasons, err := c.s.open(c.choice)
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want %v and %q", err, c.err, c.want)
			}
			if err == nil {
				p := dev.Properties()
				if got := fmt.Sprintf("%s %d", p.Kind, p.Index); got != c.want {
					t.Errorf("opened %s, want %s", got, c.want)
				}
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			} else if dev != nil {
				t.Error("a device beside an error")
			}
			if !slices.EqualFunc(reasons, c.reasons, func(r Reason, start string) bool { return strings.HasPrefix(r.String(), start) }) {
				t.Errorf("reasons are %v, want %v", reasons, c.reasons)
			}
		})
	}
}

func TestOpenClosesTheOthers(t *testing.T) {
	gpus := []*fakeGPU{{free: 1}, {free: 3}, {free: 2}, {free: 9, memErr: errBroken}}
	dev, _, err := machine(gpus...).open("auto")
	if err != nil || dev != gpus[1] {
		t.Fatalf("opened %v, %v", dev, err)
	}
	for i, g := range gpus {
		if want := map[bool]int{true: 0, false: 1}[i == 1]; int(g.closed.Load()) != want {
			t.Errorf("GPU %d was closed %d times, want %d", i, g.closed.Load(), want)
		}
	}
}

// A driver that does not answer becomes a reason. A device that it returns too late is closed.
func TestTimeLimit(t *testing.T) {
	g := &fakeGPU{free: 1}
	s := machine(g)
	open, release, done := s.openGPU, make(chan struct{}), make(chan struct{})
	s.limit = 10 * time.Millisecond
	s.openGPU = func(i int) (device.Device, error) {
		<-release
		defer close(done)
		return open(i)
	}
	dev, reasons, err := s.open("auto")
	if err != nil || dev.Properties().Kind != device.CPU || len(reasons) != 1 || !errors.Is(reasons[0].Err, device.ErrDriver) {
		t.Fatalf("opened %v, %v, %v", dev, reasons, err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	<-done
	for i := 0; g.closed.Load() == 0; i++ {
		if i == 1000 {
			t.Fatal("the device that came too late is still open")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestList(t *testing.T) {
	gpus := []*fakeGPU{{free: 1}, {free: 3, memErr: errBroken}}
	list := machine(gpus...).entries()
	if len(list) != 3 {
		t.Fatalf("%d entries: %+v", len(list), list)
	}
	if e := list[0]; e.Choice != "cpu" || e.Err != nil || e.Properties.Kind != device.CPU || e.Memory.Total == 0 {
		t.Errorf("the CPU: %+v", e)
	}
	if e := list[1]; e.Choice != "cuda:0" || e.Err != nil || e.Memory.Free != 1 || e.Properties.Name != "fake 0" {
		t.Errorf("a GPU: %+v", e)
	}
	if e := list[2]; e.Choice != "cuda:1" || !errors.Is(e.Err, errBroken) || e.Memory.Total != 0 || e.Properties.Name != "fake 1" {
		t.Errorf("a broken GPU: %+v", e)
	}
	for i, g := range gpus {
		if g.closed.Load() != 1 {
			t.Errorf("GPU %d was closed %d times", i, g.closed.Load())
		}
	}
}

// On every machine auto opens a device. It returns a reason if the device is not a GPU.
func TestThisMachine(t *testing.T) {
	dev, reasons, err := Open("auto")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if dev.Properties().Kind == device.CPU && len(reasons) == 0 {
		t.Error("the CPU without a reason against GPUs")
	}
	t.Logf("%+v, because of %v", dev.Properties(), reasons)
	list := List()
	if len(list) < 2 || list[0].Err != nil {
		t.Errorf("devices are %+v", list)
	}
	for _, e := range list {
		t.Logf("%+v", e)
	}
}
