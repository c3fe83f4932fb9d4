package main

import (
	"context"
	"errors"

	google "github.com/google/btree"
	tidwall "github.com/tidwall/btree"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/ordered"
)

// tree is an ordered map from uint64 to uint64. Its methods return a sum over their results.
type tree interface {
	// load inserts pairs into an empty map.
	load(keys, vals []uint64, sorted bool) (uint64, error)
	get(keys []uint64) (uint64, error)
	// scan reads scanLength pairs from each key on.
	scan(from []uint64) (uint64, error)
	// mixed runs mixedBatch operations. Of each four, two look up keys in present, one inserts a
	// key from fresh, and one deletes a key in present.
	mixed(present, fresh []uint64) (uint64, error)
	close() error
}

// peer is a kind of map.
type peer struct {
	name string
	open func() (tree, error)
}

// ours is the number of weft's maps.
const ours = 2

// maps are the compared maps. weft's come first.
var maps = []peer{
	{"weft ordered", openOrdered},
	{"weft btree", openBTree},
	{"tidwall/btree", func() (tree, error) { return new(tidwallTree), nil }},
	{"google/btree", func() (tree, error) { return googleTree{google.NewG(64, lessPair)}, nil }},
}

// step returns the kind and the key of operation i of a mixed batch.
func step(i int, there, fresh []uint64) (weft.OpKind, uint64) {
	switch i % 4 {
	case 1:
		return weft.OpPut, fresh[i/4%len(fresh)]
	case 3:
		return weft.OpDelete, there[i%len(there)]
	}
	return weft.OpGet, there[i%len(there)]
}

type weftMap struct {
	dev *cpu.Device
	m   *weft.OrderedMap[uint64, uint64]
}

func openWeft(open func(device.Device) (*weft.OrderedMap[uint64, uint64], error)) (tree, error) {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	m, err := open(dev)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return &weftMap{dev, m}, nil
}

func openOrdered() (tree, error) {
	return openWeft(func(dev device.Device) (*weft.OrderedMap[uint64, uint64], error) {
		m, err := ordered.New[uint64, uint64](dev, nil)
		if err != nil {
			return nil, err
		}
		return m.OrderedMap, nil
	})
}

func openBTree() (tree, error) {
	return openWeft(func(dev device.Device) (*weft.OrderedMap[uint64, uint64], error) {
		m, err := btree.New[uint64, uint64](dev, nil)
		if err != nil {
			return nil, err
		}
		return m.OrderedMap, nil
	})
}

func (w *weftMap) load(keys, vals []uint64, _ bool) (uint64, error) {
	n, err := w.m.Build(context.Background(), keys, vals)
	return uint64(n), err
}

func (w *weftMap) get(keys []uint64) (sum uint64, err error) {
	vals := make([]uint64, len(keys))
	_, err = w.m.Get(context.Background(), keys, vals, nil)
	for _, v := range vals {
		sum += v
	}
	return sum, err
}

func (w *weftMap) scan(from []uint64) (sum uint64, err error) {
	ends, counts := make([]uint64, len(from)), make([]uint32, len(from))
	for i := range ends {
		ends[i] = ^uint64(0)
	}
	keys, vals := make([]uint64, len(from)*scanLength), make([]uint64, len(from)*scanLength)
	_, err = w.m.RangeFirst(context.Background(), from, ends, scanLength, counts, keys, vals)
	for i := range vals {
		sum += vals[i]
	}
	return sum, err
}

func (w *weftMap) mixed(there, fresh []uint64) (sum uint64, err error) {
	ops, res := make([]weft.Op[uint64, uint64], mixedBatch), make([]weft.Result[uint64], mixedBatch)
	for i := range ops {
		kind, key := step(i, there, fresh)
		ops[i] = weft.Op[uint64, uint64]{Kind: kind, Key: key, Value: 1}
	}
	err = w.m.Apply(context.Background(), ops, res)
	for _, r := range res {
		sum += r.Value
	}
	return sum, err
}

func (w *weftMap) close() error { return errors.Join(w.m.Close(), w.dev.Close()) }

type tidwallTree struct{ m tidwall.Map[uint64, uint64] }

func (t *tidwallTree) load(keys, vals []uint64, sorted bool) (uint64, error) {
	for i, k := range keys {
		if sorted {
			t.m.Load(k, vals[i])
		} else {
			t.m.Set(k, vals[i])
		}
	}
	return uint64(t.m.Len()), nil
}

func (t *tidwallTree) get(keys []uint64) (sum uint64, err error) {
	for _, k := range keys {
		v, _ := t.m.Get(k)
		sum += v
	}
	return sum, nil
}

func (t *tidwallTree) scan(from []uint64) (sum uint64, err error) {
	for _, k := range from {
		n := 0
		t.m.Ascend(k, func(_, v uint64) bool {
			sum += v
			n++
			return n < scanLength
		})
	}
	return sum, nil
}

func (t *tidwallTree) mixed(there, fresh []uint64) (sum uint64, err error) {
	for i := range mixedBatch {
		switch kind, key := step(i, there, fresh); kind {
		case weft.OpPut:
			t.m.Set(key, 1)
		case weft.OpDelete:
			t.m.Delete(key)
		default:
			v, _ := t.m.Get(key)
			sum += v
		}
	}
	return sum, nil
}

func (t *tidwallTree) close() error { return nil }

type pair struct{ key, val uint64 }

func lessPair(a, b pair) bool { return a.key < b.key }

type googleTree struct{ m *google.BTreeG[pair] }

func (g googleTree) load(keys, vals []uint64, _ bool) (uint64, error) {
	for i, k := range keys {
		g.m.ReplaceOrInsert(pair{k, vals[i]})
	}
	return uint64(g.m.Len()), nil
}

func (g googleTree) get(keys []uint64) (sum uint64, err error) {
	for _, k := range keys {
		p, _ := g.m.Get(pair{key: k})
		sum += p.val
	}
	return sum, nil
}

func (g googleTree) scan(from []uint64) (sum uint64, err error) {
	for _, k := range from {
		n := 0
		g.m.AscendGreaterOrEqual(pair{key: k}, func(p pair) bool {
			sum += p.val
			n++
			return n < scanLength
		})
	}
	return sum, nil
}

func (g googleTree) mixed(there, fresh []uint64) (sum uint64, err error) {
	for i := range mixedBatch {
		switch kind, key := step(i, there, fresh); kind {
		case weft.OpPut:
			g.m.ReplaceOrInsert(pair{key, 1})
		case weft.OpDelete:
			g.m.Delete(pair{key: key})
		default:
			p, _ := g.m.Get(pair{key: key})
			sum += p.val
		}
	}
	return sum, nil
}

func (g googleTree) close() error { return nil }
