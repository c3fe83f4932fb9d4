package gphash

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/internal/core"
)

// A page of large values is not larger than other pages. Each page has memory for all slots in it.
func TestPageSize(t *testing.T) {
	const n, size = 128, 1 << 16
	x, err := Create(filepath.Join(t.TempDir(), "pool"), openCPU(t), Options{KeySize: 8, ValueSize: size, Capacity: 200, Size: 24 << 20})
	must(t, err)
	var keys []byte
	for i := range uint64(n) {
		keys = binary.LittleEndian.AppendUint64(keys, i)
	}
	_, err = x.Put(ctx, keys, bytes.Repeat([]byte("values! "), n*size/8))
	must(t, err)
	pairs := 0
	for p, err := range x.Pages(ctx) {
		must(t, err)
		pairs += len(p.Keys) / 8
		if len(p.Values) > core.PageBytes {
			t.Errorf("a page of %d bytes of values", len(p.Values))
		}
	}
	if pairs != n {
		t.Errorf("%d pairs, not %d", pairs, n)
	}
	must(t, x.Close())
}

// Pages of byte strings are about as large as other pages, for all lengths.
func TestStringPages(t *testing.T) {
	for _, size := range []int{10, 300, 30_000} {
		n := min(50_000, 24<<20/size)
		x := filledStrings(t, openCPU(t), Options{Capacity: n, Size: 64 << 20})
		var keys, values Bytes
		for i := range n {
			keys.Append(binary.LittleEndian.AppendUint64(nil, uint64(i)))
			values.Append(make([]byte, size))
		}
		_, err := x.Put(ctx, keys, values)
		must(t, err)
		pages, pairs, bytes := 0, 0, 0
		for p, err := range x.Pages(ctx) {
			must(t, err)
			size := len(p.Keys.Data) + len(p.Values.Data)
			pages, pairs, bytes = pages+1, pairs+p.Keys.Len(), bytes+size
			if size > core.PageBytes*3/2 {
				t.Errorf("%d pairs: a page of %d bytes", n, size)
			}
		}
		if pairs != n || pages > 3+3*bytes/core.PageBytes {
			t.Errorf("values of %d bytes: %d pairs of %d, in %d pages", size, pairs, n, pages)
		}
	}
}
