package weft_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
)

// oneKey returns functions that make calls with one key on a map.
func oneKey(t testing.TB, dev device.Device) (get, put func()) {
	m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	keys, vals := []uint64{1}, []uint64{10}
	put = func() {
		if _, err := m.Put(t.Context(), keys, vals); err != nil {
			t.Fatal(err)
		}
	}
	get = func() {
		if n, err := m.Get(t.Context(), keys, vals, nil); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	put()
	return get, put
}

// A call with one key must allocate only for its batch, its lease and the engine, not in each step.
func TestOneKeyAllocations(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	get, put := oneKey(t, dev)
	for name, call := range map[string]func(){"Get": get, "Put": put} {
		if n := testing.AllocsPerRun(100, call); n > 8 {
			t.Errorf("a %s of one key allocates %v times", name, n)
		}
	}
}

// BenchmarkOneKey measures the fixed cost of a call, on the device that WEFT_DEVICE selects.
func BenchmarkOneKey(b *testing.B) {
	get, put := oneKey(b, devicetest.Open(b))
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			get()
		}
	})
	b.Run("Put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			put()
		}
	})
}
