package gphash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Updates change only existing keys, and the last update of a key wins.
func TestUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		dev    func(testing.TB) device.Device
		atomic int
		slow   bool
	}{
		"cpu":    {openCPU, 0, false},
		"atomic": {openCPU, 100, false},
		"sim":    {func(t testing.TB) device.Device { return devicetest.OpenSim(t, nil) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow && testing.Short() {
				t.Skip("interprets kernels")
			}
			x, err := Create(filepath.Join(memoryDir(t), "pool"), c.dev(t), Options{KeySize: 8, ValueSize: 8, Size: 8 << 20, AtomicBatch: c.atomic})
			must(t, err)
			defer x.Close()
			m, rng := model{}, rand.New(rand.NewPCG(1, 2))
			for i := range 300 {
				k, v := fmt.Sprintf("%08d", 2*i), "original"
				_, err := x.Put(ctx, []byte(k), []byte(v))
				must(t, err)
				m[k] = v
			}
			for range 5 {
				var keys, values []byte
				want, found := 0, make([]bool, 250)
				for range found {
					k, v := fmt.Sprintf("%08d", rng.IntN(700)), binary.LittleEndian.AppendUint64(nil, rng.Uint64())
					keys, values = append(keys, k...), append(values, v...)
					if _, ok := m[k]; ok {
						want++
						m[k] = string(v)
					}
				}
				n, err := x.Update(ctx, keys, values, found)
				if n != want || err != nil {
					t.Fatalf("%d pairs updated, want %d: %v", n, want, err)
				}
				for i, f := range found {
					if _, ok := m[string(row(keys, i, 8))]; f != ok {
						t.Fatalf("key %s is there: %v, want %v", row(keys, i, 8), f, ok)
					}
				}
			}
			m.equal(t, x)
			if n, err := x.Update(ctx, []byte("no such!"), []byte("whatever"), nil); n != 0 || err != nil {
				t.Error(n, err)
			}
			must(t, x.Check(ctx))
		})
	}
}

func TestUpdateStrings(t *testing.T) {
	x, m := strs(t, Options{}), model{"a": "longer than this", "key": ""}
	_, err := x.Put(ctx, BytesOf("a", "key"), BytesOf("short", "value"))
	must(t, err)
	found := make([]bool, 4)
	n, err := x.Update(ctx, BytesOf("key", "absent", "a", "key"), BytesOf("between", "value", "longer than this", ""), found)
	if n != 3 || err != nil || fmt.Sprint(found) != "[true false true true]" {
		t.Error(n, err, found)
	}
	m.equalStrings(t, x)
	clear(found)
	if n, err = x.Update(ctx, BytesOf("key", "a"), BytesOf("all", "there"), found[:2]); n != 2 || err != nil || !found[0] || !found[1] {
		t.Error(n, err, found)
	}
	if _, err := x.Update(ctx, BytesOf(""), BytesOf("value"), nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("an empty key: %v", err)
	}
}

// An update that is canceled before it starts, or finds no memory for values, returns an error and
// changes nothing.
func TestUpdateFails(t *testing.T) {
	x := strs(t, Options{Size: 8 << 20})
	var keys, values, otherValues Bytes
	for i := range 200 {
		keys.Append(fmt.Append(nil, i))
		values.Append(make([]byte, maxValue))
		otherValues.Append(append(make([]byte, maxValue-1), 1))
	}
	_, err := x.Put(ctx, keys, values)
	if !errors.Is(err, weft.ErrFull) {
		t.Fatal(err)
	}
	before := saved(t, x)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	found := make([]bool, 200)
	if n, err := x.Update(ended, keys, otherValues, found); n != 0 || !errors.Is(err, context.Canceled) {
		t.Error(n, err)
	}
	var p *weft.PartialError
	n, err := x.Update(ctx, keys, otherValues, found)
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != 200 || p.Failed+n != x.Len() || len(p.Rows) != p.Failed || !slices.IsSorted(p.Rows) {
		t.Errorf("%d pairs updated of %d: %v", n, x.Len(), err)
	}
	if n == 0 && string(saved(t, x)) != string(before) {
		t.Error("pairs that were not updated are others")
	}
	must(t, x.Check(ctx))
}
