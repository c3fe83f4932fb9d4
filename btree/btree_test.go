package btree_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
)

func open[K weft.Key, V weft.Value](t testing.TB, dev device.Device) *btree.Map[K, V] {
	t.Helper()
	m, err := btree.New[K, V](dev, nil)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}
