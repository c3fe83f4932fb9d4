package pm_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// Bytes of any length read back as written, in memory and in a domain. Nothing is written after
// their last word.
func TestBytes(t *testing.T) {
	const words = 64
	rng := rand.New(rand.NewPCG(1, 2))
	for name, m := range map[string]*pm.Memory{
		"memory": pm.New(make([]byte, words*pm.Word), nil),
		"domain": pm.New(make([]byte, words*pm.Word), pmtest.New(words, 1)),
	} {
		for size := range 100 {
			for at := range uint64(words) {
				m.Store(at, ^uint64(0))
			}
			b, is := make([]byte, size), make([]byte, size)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			at, n := uint64(3), pm.WordsOf(size)
			m.Write(at, b)
			if m.Read(at, is); !bytes.Equal(b, is) || !m.Equal(at, b) {
				t.Fatalf("%s: %d bytes come back as %x, were %x", name, size, is, b)
			}
			if m.Load(at-1) != ^uint64(0) || m.Load(at+n) != ^uint64(0) {
				t.Fatalf("%s: %d bytes are written beyond their words", name, size)
			}
			if size > 0 {
				if b[size-1]++; m.Equal(at, b) {
					t.Fatalf("%s: %d bytes are equal to others", name, size)
				}
			}
			m.Clear(at, at+n)
			if n > 0 && (m.Load(at) != 0 || m.Load(at+n-1) != 0) || m.Load(at+n) != ^uint64(0) {
				t.Fatalf("%s: Clear of %d words", name, n)
			}
		}
	}
}

func TestCompareAndSwap(t *testing.T) {
	for _, m := range []*pm.Memory{pm.New(make([]byte, 64), nil), pm.New(make([]byte, 64), pmtest.New(8, 1))} {
		if m.CompareAndSwap(2, 1, 5) || !m.CompareAndSwap(2, 0, 5) || m.Load(2) != 5 || m.Words() != 8 {
			t.Error("a word is not what a compare-and-swap has made of it")
		}
	}
}
