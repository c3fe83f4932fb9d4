package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
)

// subject is a structure with random changes and a content that can be compared.
type subject interface {
	Structure
	change(rng *rand.Rand) error
	content() string
	Sync(ctx context.Context) error
}

func randomKeys(rng *rand.Rand) (keys, vals []uint64) {
	n := 1 + rng.IntN(4)
	if rng.IntN(4) == 0 {
		n = 20 // several frames
	}
	for range n {
		keys, vals = append(keys, rng.Uint64N(40)), append(vals, rng.Uint64N(100))
	}
	return keys, vals
}

type mapSubject struct{ *linear.Map[uint64, uint64] }

func (m mapSubject) content() string { return fmt.Sprint(maps.Collect(m.All())) }

func (m mapSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(12) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.PutNew(ctx, keys, vals, nil)
	case 1, 2:
		_, err = m.Delete(ctx, keys, nil)
	case 3:
		_, err = m.Reduce(ctx, keys, vals, weft.Sum)
	case 4:
		_, err = m.GetOrPut(ctx, keys, vals, nil)
	case 5:
		ops := make([]weft.Op[uint64, uint64], len(keys))
		for i, k := range keys {
			kinds := []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpMax}
			ops[i] = weft.Op[uint64, uint64]{Kind: kinds[rng.IntN(len(kinds))], Key: k, Value: vals[i]}
		}
		err = m.Apply(ctx, ops, nil)
	case 6:
		if rng.IntN(4) == 0 {
			err = m.Clear(ctx)
		}
	}
	return err
}

type setSubject struct{ *linear.Set[uint32] }

func (s setSubject) content() string { return fmt.Sprint(slices.Sorted(s.All())) }

func (s setSubject) change(rng *rand.Rand) (err error) {
	wide, _ := randomKeys(rng)
	keys := make([]uint32, len(wide))
	for i, k := range wide {
		keys[i] = uint32(k)
	}
	if rng.IntN(3) == 0 {
		_, err = s.Delete(context.Background(), keys, nil)
	} else {
		_, err = s.Add(context.Background(), keys, nil)
	}
	return err
}

type multiSubject struct{ *slab.MultiMap[uint64, uint64] }

func (m multiSubject) content() string {
	pairs := []string{}
	for k, v := range m.All() {
		pairs = append(pairs, fmt.Sprint(k, v))
	}
	slices.Sort(pairs)
	return fmt.Sprint(pairs)
}

func (m multiSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(6) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.Delete(ctx, keys, nil)
	case 1:
		_, err = m.DeleteAll(ctx, keys, nil)
	case 2:
		ops := make([]weft.Op[uint64, uint64], len(keys))
		for i, k := range keys {
			ops[i] = weft.Op[uint64, uint64]{Kind: []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpDeleteAll}[rng.IntN(3)], Key: k, Value: vals[i]}
		}
		err = m.Apply(ctx, ops, nil)
	}
	return err
}

type orderedSubject struct{ *ordered.Map[uint64, uint64] }

func (m orderedSubject) content() string { return fmt.Sprint(maps.Collect(m.All())) }

func (m orderedSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(5) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.Delete(ctx, keys, nil)
	case 1:
		_, err = m.DeleteRange(ctx, keys, vals, nil)
	case 2:
		_, err = m.Reduce(ctx, keys, vals, weft.Min)
	}
	return err
}

// assignSubject is a map of ids. Its content includes the next id, which no crash may bring back.
type assignSubject struct{ *linear.Map[uint64, uint64] }

func (m assignSubject) content() string {
	return fmt.Sprint(maps.Collect(m.All()), storeContent(m))
}

var errOnlyID = errors.New("only the next id is wanted")

func storeContent(m Structure) uint64 {
	next := ^uint64(0)
	if err := core.LoggedOf(m).Checkpoint(context.Background(), func(id uint64) error { next = id; return errOnlyID }, nil); !errors.Is(err, errOnlyID) {
		panic(err)
	}
	return next
}

func (m assignSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	if rng.IntN(3) == 0 {
		_, err = m.Delete(ctx, keys, nil)
	} else {
		_, err = m.Assign(ctx, keys, vals)
	}
	return err
}

// subjects makes the structures that crash tests run.
func subjects(dev device.Device) map[string]func() (subject, error) {
	return map[string]func() (subject, error){
		"map": func() (subject, error) {
			m, err := linear.New[uint64, uint64](dev, nil)
			return mapSubject{m}, err
		},
		"set": func() (subject, error) {
			s, err := linear.NewSet[uint32](dev, nil)
			return setSubject{s}, err
		},
		"multimap": func() (subject, error) {
			m, err := slab.NewMultiMap[uint64, uint64](dev, &slab.Options{Capacity: 100})
			return multiSubject{m}, err
		},
		"table graph": func() (subject, error) {
			g, err := slab.NewWeightedGraph[float32](dev, &slab.GraphOptions{Vertices: tableVertices})
			return tableGraphSubject{weightedTable{g}}, err
		},
		"ordered": func() (subject, error) {
			m, err := ordered.New[uint64, uint64](dev, nil)
			return orderedSubject{m}, err
		},
		"assign": func() (subject, error) {
			m, err := linear.New[uint64, uint64](dev, nil)
			return assignSubject{m}, err
		},
		"ids of strings": func() (subject, error) { return newIDSubject(dev, "strings") },
		"ids of rows":    func() (subject, error) { return newIDSubject(dev, "numbers and strings") },
		"graph":          graphSubject(graphKinds()[0], dev),
		"weighted directed multigraph with loops": graphSubject(graphKinds()[7], dev),
	}
}
