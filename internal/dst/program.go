package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftgo/weft"
)

// A Shape is a kind of trouble that programs look for.
type Shape struct {
	Name     string
	Capacity int  // of the structure; 0 lets it start small and grow
	Fixed    bool // the structure must not grow
	Keys     int  // different hot keys
	Hot      int  // operations on hot keys per batch
	Cold     int  // operations on keys of their own per batch
	Batches  int
	Kinds    []weft.OpKind // of the batches, each of one kind; nil: any
}

// Shapes are the defaults of [Config].
var Shapes = []Shape{
	{Name: "many keys, few slots", Capacity: 8, Keys: 24, Hot: 96, Batches: 3},
	{Name: "few keys, many threads", Capacity: 400, Keys: 3, Hot: 36, Cold: 150, Batches: 2},
	{Name: "one key", Capacity: 300, Keys: 1, Hot: 14, Cold: 242, Batches: 2},
	{Name: "around full", Capacity: 24, Fixed: true, Keys: 40, Hot: 120, Batches: 3},
	{Name: "never full", Capacity: 64, Fixed: true, Keys: 20, Hot: 60, Batches: 2},
	{Name: "around growth", Keys: 30, Hot: 60, Cold: 20, Batches: 5},
}

// A batch is a list of operations submitted at once; a uniform one has one
// kind only and goes through that kind's own method.
type batch[K weft.Key, V weft.Value] struct {
	upkeep  string // what is done before, if not ""
	uniform bool
	ops     []weft.Op[K, V]
}

// A program is a list of batches that run one after another.
type program[K weft.Key, V weft.Value] []batch[K, V]

// generate makes up a program of a shape. Every value is written once only,
// so that a value read tells who wrote it.
func generate[K weft.Key, V weft.Value](rng *rand.Rand, shape Shape, cfg *Config[K, V]) program[K, V] {
	hot := make([]K, shape.Keys)
	for i := range hot {
		hot[i] = key[K](rng)
	}
	next := uint64(hot[0]) % 4 // now and then 0 and all ones are among the values
	if cfg.Multi {
		next = max(next, 1) // in histories of many values, 0 stands for none
	}
	var p program[K, V]
	for at := range shape.Batches {
		b := batch[K, V]{uniform: cfg.Uniform || rng.IntN(4) == 0 && !shape.Fixed}
		if len(cfg.Upkeep) > 0 && rng.IntN(2) == 0 {
			b.upkeep = cfg.Upkeep[rng.IntN(len(cfg.Upkeep))].Name
		}
		kind := pick(rng, cfg.Multi)
		if shape.Kinds != nil {
			b.uniform, kind = true, shape.Kinds[at]
		}
		if cfg.Multi && b.uniform && rng.IntN(4) == 0 {
			b.ops = lookUp[K, V](hot)
			p = append(p, b)
			continue
		}
		for i := range shape.Hot + shape.Cold {
			op := weft.Op[K, V]{Kind: kind, Value: value[V](next)}
			next++
			if !b.uniform {
				op.Kind = pick(rng, cfg.Multi)
			}
			if i < shape.Hot {
				op.Key = hot[rng.IntN(len(hot))]
			} else {
				op.Key = key[K](rng)
			}
			b.ops = append(b.ops, op)
		}
		rng.Shuffle(len(b.ops), func(i, j int) { b.ops[i], b.ops[j] = b.ops[j], b.ops[i] })
		p = append(p, b)
	}
	return p
}

// pick chooses a kind of operation. Multimaps get more that add values: one
// DeleteAll takes away many.
func pick(rng *rand.Rand, multi bool) weft.OpKind {
	if !multi {
		return weft.OpKind(rng.IntN(4))
	}
	kinds := [...]weft.OpKind{weft.OpGet, weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDelete, weft.OpDeleteAll}
	return kinds[rng.IntN(len(kinds))]
}

// lookUp are operations that list all values of keys, each once.
func lookUp[K weft.Key, V weft.Value](keys []K) (ops []weft.Op[K, V]) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, k := range keys {
		ops = append(ops, weft.Op[K, V]{Kind: getAll, Key: k})
	}
	return ops
}

// key is any key; now and then one that implementations like to reserve.
func key[K weft.Key](rng *rand.Rand) K {
	if rng.IntN(8) == 0 {
		return K(^uint64(0) - rng.Uint64N(4))
	}
	return K(rng.Uint64())
}

// value is the n-th of many different values: 0, all ones, then such that
// differ in bits everywhere. An odd factor keeps different numbers different.
func value[V weft.Value](n uint64) V {
	if n == 1 {
		n = ^uint64(0)
	} else {
		n *= 0x9e3779b97f4a7c15
	}
	return V(n)
}

// String lists the program as one would tell it.
func (p program[K, V]) String() string {
	var s strings.Builder
	for i, b := range p {
		how := "mixed"
		if b.uniform {
			how = "uniform"
		}
		if b.upkeep != "" {
			fmt.Fprintf(&s, "%s; ", b.upkeep)
		}
		fmt.Fprintf(&s, "batch %d, %s, %d operations:", i, how, len(b.ops))
		for j, op := range b.ops {
			if j == 40 {
				fmt.Fprintf(&s, " … and %d more", len(b.ops)-j)
				break
			}
			fmt.Fprintf(&s, " %s", describe(op))
		}
		s.WriteByte('\n')
	}
	return s.String()
}

func describe[K weft.Key, V weft.Value](op weft.Op[K, V]) string {
	if op.Kind == weft.OpPut || op.Kind == weft.OpPutNew {
		return fmt.Sprintf("%v(%#x,%#x)", op.Kind, op.Key, op.Value)
	}
	if op.Kind == getAll {
		return fmt.Sprintf("GetAll(%#x)", op.Key)
	}
	return fmt.Sprintf("%v(%#x)", op.Kind, op.Key)
}

// size is the number of operations.
func (p program[K, V]) size() (n int) {
	for _, b := range p {
		n += len(b.ops)
	}
	return n
}
