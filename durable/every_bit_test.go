package durable

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
)

// Each bit of a closed store matters, or is checked: with the bit turned, the store is refused or
// has its whole content.
func TestEveryBit(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, name := range []string{"map", "graph", "ids of strings"} {
		empty := subjects(dev)[name]
		fs := newMemoryFS(nil)
		states, err := history(fs, empty, Options{LogLimit: 4096}, rand.New(rand.NewPCG(7, 8)), 0, 12)
		if err != nil {
			t.Fatal(err)
		}
		last, bits, refused := states[len(states)-1], 0, 0
		for _, file := range slices.Sorted(maps.Keys(fs.files())) {
			for at := range 8 * len(fs.files()[file]) {
				files := fs.files()
				files[file][at/8] ^= 1 << (at % 8)
				bits++
				m, err := openSubject(newMemoryFS(files), empty, Options{})
				if err != nil {
					if refused++; !errors.Is(err, weft.ErrCorrupt) && !errors.Is(err, weft.ErrFormat) {
						t.Fatalf("%s: bit %d of %s: %v", name, at, file, err)
					}
					continue
				}
				if got := m.content(); got != last {
					t.Fatalf("%s: bit %d of %s: the content is %s, and was %s", name, at, file, got, last)
				}
				m.Close()
			}
		}
		if t.Logf("%s: %d bits, %d refused", name, bits, refused); refused < bits/2 {
			t.Errorf("%s: only %d of %d bits are checked", name, refused, bits)
		}
	}
}
