package join_test

import (
	"flag"
	"math/bits"
	"os"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/join"
)

var linkRows = flag.Int("linkrows", 0, "rows of TestLink, 8 bytes each; 0 skips it")

// TestLink measures how much of the rate of the link to a GPU a join of page-locked keys uses, and
// plain copies. Build with go test -c, run with
//
//	WEFT_DEVICE=cuda ./join.test -test.run TestLink -test.v -linkrows 1000000000
func TestLink(t *testing.T) {
	if *linkRows == 0 {
		t.Skip("-linkrows is 0")
	}
	dev, _, err := auto.Open(os.Getenv(devicetest.Variable)) // unchecked: checks take time
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the keys are freed
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	left := lock(t, dev, make([]uint64, *linkRows))
	limit := plainCopies(t, dev, left)
	for _, rows := range []int{1e3, 1e6, 1e8} {
		rows = min(rows, len(left)/10)
		right := make([]uint64, rows)
		for i := range right {
			right[i] = uint64(i)
		}
		for _, times := range []uint64{1, 10} { // a pair for each left row, and for one in ten
			for i := range left {
				left[i], _ = bits.Mul64(uint64(i)*0x9e3779b97f4a7c15, uint64(rows)*times)
			}
			for range 2 {
				linkInner(t, dev, left, right, limit)
			}
		}
	}
}

// plainCopies returns the best rate, in bytes per second, of three copies of keys to a device.
func plainCopies(t *testing.T, dev device.Device, keys []uint64) (limit float64) {
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const piece = 64 << 20
	to, err := dev.Alloc(piece)
	if err != nil {
		t.Fatal(err)
	}
	bytes := device.Bytes(keys)
	for range 3 {
		start := time.Now()
		for at := 0; at < len(bytes); at += piece {
			if err := s.CopyInAsync(to.Ptr, bytes[at:min(at+piece, len(bytes))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		limit = max(limit, float64(len(bytes))/time.Since(start).Seconds())
	}
	t.Logf("plain copies %.1f GB/s", limit/1e9)
	if err := dev.Free(to); err != nil {
		t.Fatal(err)
	}
	return limit
}

func linkInner(t *testing.T, dev device.Device, left, right []uint64, limit float64) {
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys, err := device.Upload(s, right)
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Free()
	ix, err := join.NewOn(t.Context(), s, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for range ix.Inner(t.Context(), left[:min(len(left), 1<<20)]) { // loads kernels
	}
	start, pairs := time.Now(), 0
	for p, err := range ix.Inner(t.Context(), left) {
		if err != nil {
			t.Fatal(err)
		}
		pairs += p.Len()
	}
	elapsed := time.Since(start).Seconds()
	in, out := 8*float64(len(left))/elapsed, 8*float64(pairs)/elapsed
	t.Logf("Inner of %d right rows: %.3f s, %.1f GB/s in (%.3f of the link), %.1f GB/s out (%.3f)",
		len(right), elapsed, in/1e9, in/limit, out/1e9, out/limit)
}
