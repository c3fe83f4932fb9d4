package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestDevicesMakesNoContext(t *testing.T) {
	f := newFake()
	list, err := f.driver(t).devices()
	if err != nil {
		t.Fatal(err)
	}
	want := device.Properties{Kind: device.CUDA, Name: "Fake A100", Index: 1, Units: 132, Arch: 80, L2: 50 << 20, Driver: "13.0"}
	if len(list) != 3 || list[1] != want {
		t.Errorf("devices are %+v, want %+v among them", list, want)
	}
	if f.calls[symPrimaryCtxRetain] != 0 {
		t.Error("Devices made a context")
	}
}

func TestOpenFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(f *fake)
		index    int
		sentinel error
		says     string
	}{
		{"no such index", nil, 3, device.ErrNoDevice, "index 3, the driver sees 3 GPUs"},
		{"negative index", nil, -1, device.ErrNoDevice, "index -1"},
		{"too old a GPU", nil, 2, device.ErrUnsupported, "compute capability 7.0"},
		{"no GPU", func(f *fake) { f.initCode = noDevice }, 0, device.ErrNoDevice, "CUDA_VISIBLE_DEVICES"},
		{"driver and kernel module differ", func(f *fake) { f.initCode = 803 }, 0, device.ErrDriver, "FAKE_ERROR_803"},
		{"old driver", func(f *fake) { f.missing = map[string]bool{"cuLaunchKernel": true}; f.version = 10020 }, 0,
			device.ErrDriverTooOld, "cuLaunchKernel; it is for CUDA 10.2, and weft needs 12.0"},
		{"another library", func(f *fake) { f.missing = map[string]bool{"cuInit": true} }, 0, device.ErrDriver, "libfake.so.1 has no function cuInit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			if c.change != nil {
				c.change(f)
			}
			drv, err := newDriver(f)
			if err == nil {
				_, err = drv.open(c.index)
			}
			if !errors.Is(err, c.sentinel) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want %v and %q", err, c.sentinel, c.says)
			}
			f.checkEmpty(t)
		})
	}
}

// Drivers differ in how functions are looked up. All ways must find the same functions.
func TestDriverVersions(t *testing.T) {
	for _, c := range []struct {
		name         string
		version      int
		missing      map[string]bool
		hasParamInfo bool
	}{
		{"CUDA 13", 13000, nil, true},
		{"CUDA 12.2", 12020, map[string]bool{"cuFuncGetParamInfo": true}, false},
		{"CUDA 11.4, without cuGetProcAddress_v2", 11040, map[string]bool{"cuGetProcAddress_v2": true, "cuFuncGetParamInfo": true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.version, f.missing = c.version, c.missing
			d := f.open(t)
			if got := d.drv.has(symFuncGetParamInfo); got != c.hasParamInfo {
				t.Errorf("cuFuncGetParamInfo found: %v, want %v", got, c.hasParamInfo)
			}
			k, err := kernelOf(d, withParams(map[string]int{"add": 32}), "add")
			if err != nil || k.ParamSize() != 32 || k.Name() != "add" {
				t.Errorf("a kernel whose parameters the image tells: %v, %v", k, err)
			}
			if n := f.calls[symFuncGetParamInfo]; n != 0 {
				t.Errorf("the driver was asked %d times what the image tells", n)
			}
			k, err = kernelOf(d, vectors, "add")
			switch {
			case c.hasParamInfo && (err != nil || k.ParamSize() != 32):
				t.Errorf("a kernel whose parameters the driver tells: %v, %v", k, err)
			case !c.hasParamInfo && (!errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), "drivers for CUDA 12.4 and later can report it")):
				t.Errorf("a kernel whose parameters nobody tells: %v", err)
			}
		})
	}
}

func withParams(params map[string]int) *device.Image {
	t := vectors.Targets[0]
	t.Params = params
	return &device.Image{Name: "vectors", Targets: []device.Target{t}}
}

func kernelOf(d *Device, img *device.Image, name string) (device.Kernel, error) {
	m, err := d.Load(img)
	if err != nil {
		return nil, err
	}
	return m.Kernel(name)
}

func TestTwoDevicesOfOneGPU(t *testing.T) {
	f := newFake()
	a := f.open(t)
	b, err := a.drv.open(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Memory(); err != nil {
		t.Errorf("closing one device closed the other: %v", err)
	}
}

// A thread keeps the context of its last call, so each call must set its own.
func TestTwoGPUs(t *testing.T) {
	f := newFake()
	a := f.open(t)
	b, err := a.drv.open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 3 {
		ma, err := a.Memory()
		if err != nil {
			t.Fatal(err)
		}
		mb, err := b.Memory()
		if err != nil {
			t.Fatal(err)
		}
		if ma.Total != 8<<30 || mb.Total != 2<<30 {
			t.Fatalf("memory %+v and %+v", ma, mb)
		}
	}
}
