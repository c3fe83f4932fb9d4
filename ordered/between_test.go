package ordered_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

// TestBetweenGoesOnBehindReversedPages reverses each page of a range that Between yields. Between
// must still continue after the last key of the page.
func TestBetweenGoesOnBehindReversedPages(t *testing.T) {
	m, err := ordered.New[uint32, uint32](devicetest.OpenCPU(t, 1), nil)
	must(t, err)
	defer m.Close()
	keys := conformance.Sequence[uint32](0, 3<<15) // two pages
	_, err = m.Put(ctx(), keys, keys)
	must(t, err)
	var got []uint32
	for p, err := range m.Between(ctx(), 0, ^uint32(0)) {
		must(t, err)
		slices.Reverse(p.Keys)
		for _, k := range slices.Backward(p.Keys) {
			got = append(got, k)
		}
		if len(got) > len(keys) {
			break
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("%d pairs of %d, or others", len(got), len(keys))
	}
}

// TestUnsortedBuilds builds maps from keys that ascend only up to some point. A load writes pairs
// to leaves until it meets a key that does not ascend.
func TestUnsortedBuilds(t *testing.T) {
	open := func() conformance.AnyOrderedMap[int32, uint32] {
		return conformance.Open(t, ordered.New[int32, uint32], devicetest.Open(t), nil)
	}
	conformance.BuildUnsorted(t, open, 520, 13_311, 13_312, 13_313)
}
