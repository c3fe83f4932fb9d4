package gphash

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// Lookups, iterations and changes of byte strings run at the same time. They read only values that
// were put.
func TestStringsBesideEachOther(t *testing.T) {
	dev := simulated(t)
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), dev, Options{Capacity: 200, Size: 16 << 20, Mirror: true})
	must(t, err)
	var keys Bytes
	for i := range 60 {
		keys.Append(fmt.Appendf(nil, "key %d", i))
	}
	// valuesOf returns the values of a round. Each value repeats one byte, which determines its
	// length.
	valuesOf := func(round int) (b Bytes) {
		for i := range keys.Len() {
			b.Append(bytes.Repeat([]byte{byte(round + i)}, 1+(round+i)%100*7))
		}
		return b
	}
	whole := func(v []byte) bool { return len(v) > 0 && bytes.Equal(v, bytes.Repeat(v[:1], 1+int(v[0])%100*7)) }
	_, err = x.Put(ctx, keys, valuesOf(0))
	must(t, err)
	var work sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var got Bytes
				if n, err := x.Get(ctx, keys, &got, nil); err != nil || n != keys.Len() {
					t.Errorf("%d keys, %v", n, err)
					return
				}
				for i := range got.Len() {
					if !whole(got.Row(i)) {
						t.Errorf("key %d has %x", i, got.Row(i))
					}
				}
			}
		})
	}
	for round := range 12 {
		_, err := x.Put(ctx, keys, valuesOf(round*5%50))
		must(t, err)
		seen := 0
		for _, v := range x.All(ctx) {
			if seen++; !whole(v) {
				t.Errorf("a value is %x", v)
			}
		}
		if seen != keys.Len() {
			t.Errorf("%d pairs are seen", seen)
		}
	}
	close(done)
	work.Wait()
	must(t, x.Check(ctx))
	must(t, x.Close())
}
