package weft_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
)

// Batches must work in memory that the caller allocated and frees.
func TestBatchesInMemoryOfOthers(t *testing.T) {
	for _, kind := range []string{"cpu", "sim"} {
		t.Run(kind, func(t *testing.T) {
			t.Setenv(devicetest.Variable, kind)
			batchesInMemoryOfOthers(t, devicetest.Open(t))
		})
	}
	t.Run("as told", func(t *testing.T) { batchesInMemoryOfOthers(t, devicetest.Open(t)) })
}

func batchesInMemoryOfOthers(t *testing.T, dev device.Device) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := dev.NewStream()
	must(err)
	defer s.Close()
	const n = 100
	theirs, err := dev.Alloc(n * 16)
	must(err)
	part := func(lo, size int) device.Buffer {
		b := device.Buffer{Ptr: theirs.Ptr + device.Ptr(lo), Size: size}
		if theirs.Host != nil {
			b.Host = theirs.Host[lo:][:size]
		}
		return b
	}
	keys, err := device.Wrap[uint64](dev, part(0, 8*n), n)
	must(err)
	vals, err := device.Wrap[uint32](dev, part(8*n, 4*n), n)
	must(err)
	found, err := device.Wrap[bool](dev, part(12*n, n), n)
	must(err)
	in := make([]uint64, n)
	for i := range in {
		in[i] = uint64(i * i)
	}
	must(keys.CopyFrom(s, in))
	must(s.Fill(vals.Ptr(), 7, n))
	m, err := linear.New[uint64, uint32](dev, nil)
	must(err)
	must(m.PutOn(s, keys, vals))
	must(s.Fill(vals.Ptr(), 0, n))
	must(m.GetOn(s, keys, vals, found))
	out, hits := make([]uint32, n), make([]bool, n)
	must(vals.CopyTo(t.Context(), s, out))
	must(found.CopyTo(t.Context(), s, hits))
	if slices.ContainsFunc(out, func(v uint32) bool { return v != 7 }) || slices.Contains(hits, false) {
		t.Errorf("got %d, %t", out, hits)
	}
	must(errors.Join(m.Close(), keys.Free(), vals.Free(), found.Free()))
	must(dev.Free(theirs)) // only here, by the caller that allocated it
}
