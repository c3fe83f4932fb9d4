package weft_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// Concurrent calls must be able to share one counter, on the same table and on different tables.
func TestCountersMayBeShared(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	dev, err := cpu.Open(nil)
	must(err)
	defer dev.Close()
	const calls, workers = 200, 4
	keys, err := device.Make[uint64](dev, calls)
	must(err)
	var n uint64 // in Go memory, so that the race detector checks accesses to it
	count, err := device.Wrap[uint64](dev, device.Buffer{
		Ptr: device.Ptr(uintptr(unsafe.Pointer(&n))), Size: 8, Host: device.Bytes(unsafe.Slice(&n, 1)),
	}, 1)
	must(err)
	for i := range keys.Host() {
		keys.Host()[i] = uint64(i)
	}
	shared, err := linear.NewSet[uint64](dev, nil)
	must(err)
	_, err = shared.Add(t.Context(), keys.Host(), nil)
	must(err)
	var wg sync.WaitGroup
	for range workers {
		mine, err := linear.NewSet[uint64](dev, nil)
		must(err)
		s, err := dev.NewStream()
		must(err)
		wg.Go(func() {
			for i := range calls {
				key := keys.Sub(i, i+1)
				must(shared.ContainsOn(s, key, device.Slice[bool]{}, count))
				must(mine.AddOn(s, key, device.Slice[bool]{}, count))
			}
			must(mine.Close())
			must(s.Close())
		})
	}
	wg.Wait()
	if n != 2*workers*calls {
		t.Errorf("%d keys were counted, want %d", n, 2*workers*calls)
	}
	must(shared.Close())
	must(keys.Free())
}
