package number

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hostmem"
)

// isMapped reports whether a mapping of the process begins at an address.
func isMapped(t *testing.T, at string) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Contains("\n"+string(maps), "\n"+at+"-")
}

// mappedAt makes an index of n keys, and returns where its memory begins.
func mappedAt(t *testing.T, host device.Host, n int) (x *inHost, at string) {
	t.Helper()
	x = newInHost(host.Parallel, 0, false)
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = mix(i * 4)
	}
	if _, _, err := x.Assign(t.Context(), keys, make([]uint32, n)); err != nil {
		t.Fatal(err)
	}
	if x.mapped.memory == nil {
		return x, ""
	}
	return x, fmt.Sprintf("%x", uintptr(unsafe.Pointer(unsafe.SliceData(x.mapped.memory))))
}

// Close frees the mapping of an index. If it is not closed, the collector does. Small indexes have
// none.
func TestMapped(t *testing.T) {
	host, ok := devicetest.Open(t).(device.Host)
	if !ok {
		t.Skip("the index of a host")
	}
	if hostmem.Copies {
		t.Skip("reads the mappings of Linux")
	}
	if _, at := mappedAt(t, host, 20_000); at != "" {
		t.Error("a small index is mapped")
	}
	x, at := mappedAt(t, host, 300_000)
	if !isMapped(t, at) {
		t.Fatal("a large index is not mapped")
	}
	if err := x.Close(); err != nil || isMapped(t, at) {
		t.Fatal("mapped after Close", err)
	}
	_, at = mappedAt(t, host, 300_000)
	if !isMapped(t, at) {
		t.Fatal("a large index is not mapped")
	}
	for end := time.Now().Add(10 * time.Second); isMapped(t, at); time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("an index that is not reachable is still mapped")
		}
	}
}
