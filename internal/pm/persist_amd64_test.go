package pm

import (
	"fmt"
	"testing"
	"time"
	"unsafe"
)

// Each instruction takes the lines that it is given: those that do not stay in the caches
// take longer to read then. CLWB may leave them there.
func TestInstructions(t *testing.T) {
	const line, n = 64, 4096
	memory := make([]byte, (n+1)*line)
	for uintptr(unsafe.Pointer(&memory[0]))%line != 0 {
		memory = memory[1:]
	}
	lineAt := func(i int) *uint32 { return (*uint32)(unsafe.Pointer(&memory[i%n*line])) }
	at := 0
	for range n { // a cycle through all lines that no prefetcher knows
		next := (at*1365 + 1021) % n
		*lineAt(at) = uint32(next)
		at = next
	}
	read := func() time.Duration {
		start, at := time.Now(), uint32(0)
		for range n {
			at = *lineAt(int(at))
		}
		if at != 0 {
			t.Fatal("the lines are no cycle")
		}
		return time.Since(start)
	}
	for name, evict := range map[string]func(first unsafe.Pointer, lines, line uintptr){"CLFLUSH": clflush, "CLFLUSHOPT": clflushopt, "CLWB": clwb} {
		switch {
		case name == "CLWB" && machine.name != "CLWB", name == "CLFLUSHOPT" && machine.name == "CLFLUSH":
			continue
		}
		cached, whole, single := time.Duration(1<<62), time.Duration(1<<62), time.Duration(1<<62)
		for range 20 {
			read()
			cached = min(cached, read())
			evict(unsafe.Pointer(&memory[0]), n, line)
			storeFence()
			whole = min(whole, read())
			for i := range n {
				evict(unsafe.Pointer(lineAt(i)), 1, line)
			}
			evict(nil, 0, line)
			storeFence()
			single = min(single, read())
		}
		t.Logf("%s: %d lines are read in %v, in %v when they have been taken, and in %v one by one", name, n, cached, whole, single)
		if name != "CLWB" && (single < 4*cached || whole < 3*single/4) {
			t.Errorf("%s does not take lines", name)
		}
	}
}

// What a line takes that has just been stored to, and the fence behind it.
func BenchmarkWriteBack(b *testing.B) {
	memory := make([]byte, 64<<20)
	for name, writeBack := range map[string]func(first unsafe.Pointer, lines, line uintptr){"CLFLUSH": clflush, "CLFLUSHOPT": clflushopt, "CLWB": clwb} {
		if name == "CLWB" && machine.name != "CLWB" || name == "CLFLUSHOPT" && machine.name == "CLFLUSH" {
			continue
		}
		for _, lines := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/lines=%d", name, lines), func(b *testing.B) {
				at := 0
				for b.Loop() {
					for i := range lines {
						memory[at+64*i]++
					}
					writeBack(unsafe.Pointer(&memory[at]), uintptr(lines), 64)
					storeFence()
					at = (at + 64*4099) % (len(memory) - 64*lines)
				}
			})
		}
	}
}
