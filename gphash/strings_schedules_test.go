package gphash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/pm"
)

// stringsAsMap adapts an index of byte strings to a map of integers. It encodes each integer as a
// string, with varying lengths. Batches of streams run as host batches, in order.
type stringsAsMap struct{ *Strings }

func keyString(k uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, k), make([]byte, k%5*60)...)
}

func valueString(v uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, v), make([]byte, v%3*20)...)
}

func keyStrings(keys []uint64) (b Bytes) {
	for _, k := range keys {
		b.Append(keyString(k))
	}
	return b
}

func valueStrings(vals []uint64) (b Bytes) {
	for _, v := range vals {
		b.Append(valueString(v))
	}
	return b
}

// integers decodes strings. Empty strings become 0.
func integers(b *Bytes, of func(uint64) []byte, to []uint64) error {
	for i := range b.Len() {
		if to[i] = 0; len(b.Row(i)) > 0 {
			to[i] = binary.LittleEndian.Uint64(b.Row(i))
			if string(of(to[i])) != string(b.Row(i)) {
				return fmt.Errorf("a string of %d is %x", to[i], b.Row(i))
			}
		}
	}
	return nil
}

func (m stringsAsMap) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	return m.Strings.Put(ctx, keyStrings(keys), valueStrings(vals))
}

func (m stringsAsMap) PutNew(ctx context.Context, keys, vals []uint64, ok []bool) (int, error) {
	return m.Strings.PutNew(ctx, keyStrings(keys), valueStrings(vals), ok)
}

func (m stringsAsMap) Get(ctx context.Context, keys, vals []uint64, found []bool) (int, error) {
	var got Bytes
	n, err := m.Strings.Get(ctx, keyStrings(keys), &got, found)
	if err != nil {
		return n, err
	}
	return n, integers(&got, valueString, vals)
}

func (m stringsAsMap) Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error) {
	return m.Strings.Delete(ctx, keyStrings(keys), deleted)
}

func (m stringsAsMap) Apply(ctx context.Context, ops []weft.Op[uint64, uint64], res []weft.Result[uint64]) error {
	kinds, keys, vals, ok := make([]weft.OpKind, len(ops)), make([]uint64, len(ops)), make([]uint64, len(ops)), make([]bool, len(ops))
	for i, o := range ops {
		kinds[i], keys[i], vals[i] = o.Kind, o.Key, o.Value
	}
	err := m.apply(ctx, kinds, keys, vals, ok)
	for i := range res {
		res[i] = weft.Result[uint64]{Value: vals[i], OK: ok[i]}
	}
	return err
}

func (m stringsAsMap) apply(ctx context.Context, kinds []weft.OpKind, keys, vals []uint64, ok []bool) error {
	var got Bytes
	err := m.Strings.Apply(ctx, kinds, keyStrings(keys), valueStrings(vals), &got, ok)
	return errors.Join(err, integers(&got, valueString, vals))
}

func (m stringsAsMap) Pages(ctx context.Context) iter.Seq2[weft.Page[uint64, uint64], error] {
	return func(yield func(weft.Page[uint64, uint64], error) bool) {
		for p, err := range m.Strings.Pages(ctx) {
			page := weft.Page[uint64, uint64]{Keys: make([]uint64, p.Keys.Len()), Vals: make([]uint64, p.Keys.Len())}
			err = errors.Join(err, integers(&p.Keys, keyString, page.Keys), integers(&p.Values, valueString, page.Vals))
			if !yield(page, err) {
				return
			}
		}
	}
}

// on runs a batch of a stream as a host batch.
func (m stringsAsMap) on(s *device.Stream, keys, vals device.Slice[uint64], ok device.Slice[bool], run func(keys, vals []uint64, ok []bool) error) error {
	k, v, o := make([]uint64, keys.Len()), make([]uint64, vals.Len()), make([]bool, ok.Len())
	if err := keys.CopyTo(ctx, s, k); err != nil {
		return err
	}
	if err := errors.Join(vals.CopyTo(ctx, s, v), run(k, v, o)); err != nil {
		return err
	}
	return errors.Join(vals.CopyFrom(s, v), ok.CopyFrom(s, o))
}

func (m stringsAsMap) PutOn(s *device.Stream, keys, vals device.Slice[uint64], _ ...device.Slice[uint64]) error {
	return m.on(s, keys, vals, device.Slice[bool]{}, func(keys, vals []uint64, _ []bool) error {
		_, err := m.Put(ctx, keys, vals)
		return err
	})
}

func (m stringsAsMap) PutNewOn(s *device.Stream, keys, vals device.Slice[uint64], ok device.Slice[bool], _ ...device.Slice[uint64]) error {
	return m.on(s, keys, vals, ok, func(keys, vals []uint64, ok []bool) error {
		_, err := m.PutNew(ctx, keys, vals, ok)
		return err
	})
}

func (m stringsAsMap) GetOn(s *device.Stream, keys, vals device.Slice[uint64], found device.Slice[bool], _ ...device.Slice[uint64]) error {
	return m.on(s, keys, vals, found, func(keys, vals []uint64, found []bool) error {
		_, err := m.Get(ctx, keys, vals, found)
		return err
	})
}

func (m stringsAsMap) DeleteOn(s *device.Stream, keys device.Slice[uint64], deleted device.Slice[bool], _ ...device.Slice[uint64]) error {
	return m.on(s, keys, device.Slice[uint64]{}, deleted, func(keys, _ []uint64, deleted []bool) error {
		_, err := m.Delete(ctx, keys, deleted)
		return err
	})
}

func (m stringsAsMap) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, vals device.Slice[uint64], ok device.Slice[bool]) error {
	k := make([]weft.OpKind, kinds.Len())
	if err := kinds.CopyTo(ctx, s, k); err != nil {
		return err
	}
	return m.on(s, keys, vals, ok, func(keys, vals []uint64, ok []bool) error { return m.apply(ctx, k, keys, vals, ok) })
}

func (m stringsAsMap) Sync(ctx context.Context) error { return m.core.Sync(ctx) }

// CheckInvariants runs Check, which reads the whole pool.
func (m stringsAsMap) CheckInvariants() error { return m.Check(ctx) }

func stringPrograms(t *testing.T, m dst.Mode[Options]) dst.Config[uint64, uint64] {
	cfg := dst.Maps(func(dev device.Device, s dst.Shape) (stringsAsMap, error) {
		o := m.Options
		o.Capacity, o.Hash, o.Seed = max(s.Capacity, 1), SipHash, [2]uint64{1, 2}
		p, _ := memoryPool(t, &o, rand.New(rand.NewPCG(1, 2)), func(mapped []byte) *pm.Memory { return pm.New(mapped, nil) })
		c, e, _, err := openTable(ctx, p, dev, OpenOptions{Resize: o.Resize, Mirror: o.Mirror, AtomicTail: o.AtomicTail}, core.Types{})
		if err != nil {
			return stringsAsMap{}, err
		}
		return stringsAsMap{&Strings{c, e}}, nil
	}, func(s Stats) bool { return s.Keys > s.Slots || s.Levels < 2 })
	cfg.Arch, cfg.Seeds, cfg.RetriesOps = m.Arch, 3, true
	cfg.Shapes = append(cfg.Shapes, dst.Shapes...)
	cfg.Shapes = append(cfg.Shapes, keysMakeWay)
	return cfg
}

// Under any schedule of threads, the results of a batch on byte strings match a serial order of its
// operations.
func TestStringsSchedules(t *testing.T) {
	for _, m := range []dst.Mode[Options]{
		{Arch: 80, Name: "2 slots", Options: Options{Slots: 2, Hashes: 2, Levels: 2}},
		{Arch: 80, Name: "4 slots,stop,mirror", Options: Options{Slots: 4, Hashes: 2, Levels: 2, Resize: Stop, Mirror: true}},
		{Arch: 80, Name: "2 slots,atomic,tail", Options: Options{Slots: 2, Hashes: 2, Levels: 2, AtomicBatch: 40, AtomicTail: 60}},
	} {
		dst.Explore(t, m, stringPrograms(t, m))
	}
}

// The tests detect claims of slots without an atomic compare-and-swap.
func TestStringsClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg := stringPrograms(t, twoSlots)
	cfg.Shapes, cfg.Seeds, cfg.NoShrink = []dst.Shape{keysMakeWay}, 100, true
	cfg.Rewrite = mutate.Replace(t, "strings_change", `atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), (\[%rd\d+\]), (%rd\d+), (%rd\d+);`, "st.relaxed.gpu.global.b64 $2, $4; mov.b64 $1, $3;")
	f, tried := dst.Find(cfg)
	if f == nil {
		t.Fatalf("not found by %v", tried)
	}
	t.Logf("found by program %d: %v", tried.Programs, f.Err)
}
