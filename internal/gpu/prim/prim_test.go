package prim

import (
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// A rig is a device with the primitives.
type rig struct {
	*testing.T
	dev    device.Device
	stream *device.Stream
	prim   *Kernels
	rng    *rand.Rand
}

// onGPU returns the device of the environment, or a simulated GPU if that runs no kernels.
func onGPU(t *testing.T) *rig {
	t.Helper()
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.CPU {
		return onSim(t, &sim.Options{})
	}
	return newRig(t, dev)
}

func onSim(t *testing.T, o *sim.Options) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, err := sim.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return newRig(t, devicetest.Checked(t, dev))
}

func newRig(t *testing.T, dev device.Device) *rig {
	t.Helper()
	r := &rig{T: t, dev: dev, rng: rand.New(rand.NewPCG(1, 2))}
	var err error
	if r.prim, err = Load(dev); err != nil {
		t.Fatal(err)
	}
	if r.stream, err = dev.NewStream(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stream.Close() })
	return r
}

// must fails the test on an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// margin is the number of elements after each column that must stay untouched.
const margin = 3

// upload returns a column with a margin; free frees it.
func upload[T device.Elem](r *rig, v []T) device.Slice[T] {
	r.Helper()
	s, err := device.Upload(r.stream, append(append(make([]T, 0, len(v)+margin), v...), make([]T, margin)...))
	r.must(err)
	return s
}

// results returns a column for n results.
func results[T device.Elem](r *rig, n int) device.Slice[T] {
	r.Helper()
	return upload(r, make([]T, n))
}

// download returns a column and frees it.
func download[T device.Elem](r *rig, s device.Slice[T]) []T {
	r.Helper()
	v := make([]T, s.Len())
	r.must(s.CopyTo(r.Context(), r.stream, v))
	r.must(s.Free())
	var zero T
	n := len(v) - margin
	for i, x := range v[n:] {
		if x != zero {
			r.Fatalf("element %d behind a column of %d was written to", i, n)
		}
	}
	return v[:n]
}

// scratch returns dirty memory; release frees it after the work.
func (r *rig) scratch(bytes int) device.Buffer {
	r.Helper()
	b, err := r.dev.Alloc(max(bytes, 4))
	r.must(err)
	r.must(r.stream.Fill(b.Ptr, 0xa5a5a5a5, b.Size/4))
	b.Size = bytes
	return b
}

func (r *rig) release(b device.Buffer) {
	r.Helper()
	b.Size = max(b.Size, 4)
	r.must(r.stream.Sync(r.Context()))
	r.must(r.dev.Free(b))
}
