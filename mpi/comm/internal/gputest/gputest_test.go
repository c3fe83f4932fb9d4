package gputest_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
	"github.com/weftgo/weft/mpi/comm/internal/gputest"
)

// TestStub opens the substitute, which is the driver until the test ends.
func TestStub(t *testing.T) {
	before := gpu.Library
	t.Run("while", func(t *testing.T) {
		path := gputest.Stub(t)
		if gpu.Library != path || gpu.Kind != device.CPU {
			t.Errorf("the driver is %s for devices of kind %s", gpu.Library, gpu.Kind)
		}
		lookup, err := clib.Open(path, false)
		if err != nil {
			t.Fatal(err)
		}
		first, second := make([]byte, 128), make([]byte, 128)
		for _, id := range [][]byte{first, second} {
			if result := clib.Call(lookup("ncclGetUniqueId"), clib.Address(id)); result != 0 {
				t.Fatalf("ncclGetUniqueId returns %d", result)
			}
		}
		if first[127] == 0 || string(first) == string(second) {
			t.Errorf("ids %x and %x", first, second)
		}
	})
	if gpu.Library != before || gpu.Kind != device.CUDA {
		t.Errorf("the driver stays %s for devices of kind %s", gpu.Library, gpu.Kind)
	}
}
