package group

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weftgo/weft/column"
)

// If groups are not closed, their memory outside the Go heap is returned when they are garbage.
func TestNotClosed(t *testing.T) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		t.Skip("needs /proc")
	}
	dev := open(t, 2)
	keys := make([]int64, 100_000)
	for i := range keys {
		keys[i] = int64(i) * 7919
	}
	valid := slices.Repeat([]bool{true}, len(keys))
	valid[7] = false
	c := []column.Column{column.Of(keys).WithValid(column.OfBools(valid))}
	var tables, rows uintptr
	func() {
		g, err := New(dev, []Aggregate{{Func: Rows}}, &Options{Memory: 24 << 20})
		must(t, err)
		must(t, g.Add(t.Context(), c, nil))
		tables = uintptr(unsafe.Pointer(unsafe.SliceData(g.packed.store.recs.Slice)))
		rows = uintptr(unsafe.Pointer(unsafe.SliceData(g.scratch.mem)))
	}()
	for name, at := range map[string]uintptr{"tables": tables, "scratch": rows} {
		for end := time.Now().Add(10 * time.Second); isMapped(t, at); time.Sleep(time.Millisecond) {
			if runtime.GC(); time.Now().After(end) {
				t.Fatalf("%s are mapped still", name)
			}
		}
	}
}

// isMapped reports whether an address is mapped memory of the process.
func isMapped(t *testing.T, at uintptr) bool {
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		var lo, hi uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &lo, &hi); err == nil && lo <= at && at < hi {
			return true
		}
	}
	return false
}
