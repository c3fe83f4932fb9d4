package gphash

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/internal/core"
)

// Pages of large values are not larger than others: a page is memory for all slots that
// it covers, taken or not.
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
