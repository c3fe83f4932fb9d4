package gphash

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
)

// A GPU itself compares values with their checksums: without its kernel damage stays undetected.
func TestVerifyOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const n = 60
	idle := devicetest.OpenSim(t, &sim.Options{Arch: 80, Rewrite: func(_, ptx string) string {
		lo := strings.Index(ptx, ".entry gphash_verify(")
		if lo < 0 {
			return ptx
		}
		at := lo + strings.Index(ptx[lo:], "\n{")
		return ptx[:at] + "\n{\nret;" + ptx[at+2:]
	}})
	dev := devicetest.OpenSim(t, nil)
	for _, size := range [][2]int{{8, 8}, {8, 128}, {4, 3}, {20, 130}, {128, 1}} {
		for _, mirror := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d,%d,%v", size[0], size[1], mirror), func(t *testing.T) {
				path := filepath.Join(memoryDir(t), "pool")
				x, err := Create(path, dev, Options{KeySize: size[0], ValueSize: size[1]})
				must(t, err)
				var keys, values []byte
				for i := range n {
					key := denseKey(size[0], i)
					keys, values = append(keys, key...), append(values, valueOf(size[1], key, 0)...)
				}
				_, err = x.Put(ctx, keys, values)
				must(t, err)
				must(t, x.Close())
				verified := func(dev device.Device, want bool) {
					t.Helper()
					x, report, err := Open(ctx, path, dev, OpenOptions{Verify: true, Mirror: mirror})
					if (err == nil) != want || err != nil && !errors.Is(err, op.ErrCorrupt) || report.Keys+report.Damaged != n || (report.Damaged == 0) != want {
						t.Errorf("open: %v, %+v", err, report)
					}
					if err == nil {
						must(t, x.Close())
					}
				}
				verified(dev, true)
				corruptValue(t, path, row(keys, n/2, uint64(size[0])))
				verified(idle, true)
				verified(dev, false)
			})
		}
	}
}

// corruptValue changes a byte of the value of a key in a pool.
func corruptValue(t *testing.T, path string, key []byte) {
	t.Helper()
	x, _, err := Open(ctx, path, openCPU(t), OpenOptions{})
	must(t, err)
	_, c := slotOf(t, x.engine, key)
	x.engine.mem.Store(c.block(), x.engine.mem.Load(c.block())^1)
	must(t, x.Close())
}
