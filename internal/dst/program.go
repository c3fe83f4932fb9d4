package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftgo/weft"
)

// A Shape is a kind of contention that programs test.
type Shape struct {
	Name     string
	Capacity int  // of the structure; 0: starts small and grows
	Fixed    bool // the structure must not grow
	Keys     int  // number of hot keys
	Hot      int  // operations on hot keys per batch
	Cold     int  // operations on unique keys per batch
	Batches  int
	Kinds    []weft.OpKind // of the batches, each of one kind or [Mixed]; nil: any
	// Streams is the number of streams for overlapping batches, among calls with host batches,
	// iterations and waits. 0: batches run one after another.
	Streams int
}

// Mixed stands for a batch of all kinds in [Shape.Kinds].
const Mixed = weft.OpKind(0xff)

// Shapes are the defaults of [Config].
var Shapes = []Shape{
	{Name: "many keys, few slots", Capacity: 8, Keys: 24, Hot: 96, Batches: 3},
	{Name: "few keys, many threads", Capacity: 400, Keys: 3, Hot: 36, Cold: 150, Batches: 2},
	{Name: "one key", Capacity: 300, Keys: 1, Hot: 14, Cold: 242, Batches: 2},
	{Name: "around full", Capacity: 24, Fixed: true, Keys: 40, Hot: 120, Batches: 3},
	{Name: "never full", Capacity: 64, Fixed: true, Keys: 20, Hot: 60, Batches: 2},
	{Name: "around growth", Keys: 30, Hot: 60, Cold: 20, Batches: 5},
	{Name: "streams", Capacity: 100, Keys: 8, Hot: 24, Batches: 12, Streams: 3},
	{Name: "streams, around growth", Keys: 24, Hot: 40, Cold: 10, Batches: 10, Streams: 3},
	{Name: "streams, around full", Capacity: 24, Fixed: true, Keys: 90, Hot: 60, Batches: 10, Streams: 2},
}

// reducingShapes are the shapes of programs that combine values. A value that was read does not
// identify its writer, so all orders must be tried. Operations are therefore few: some on each key,
// from several warps.
var reducingShapes = []Shape{
	{Name: "sums of some keys", Capacity: 200, Keys: 24, Hot: 96, Batches: 3},
	{Name: "sums of one key", Capacity: 300, Keys: 1, Hot: 6, Cold: 60, Batches: 3},
	{Name: "sums around growth", Keys: 24, Hot: 72, Cold: 16, Batches: 4},
	{Name: "sums around full", Capacity: 24, Fixed: true, Keys: 40, Hot: 80, Batches: 3},
	{Name: "sums on streams", Capacity: 100, Keys: 20, Hot: 40, Batches: 6, Streams: 3},
}

// atomicShapes are the shapes of programs for ordered maps with atomic batches. Their pairs fill a
// few leaves, or dozens, and most pairs of one leaf are deleted.
var atomicShapes = []Shape{
	{Name: "few leaves", Keys: 60, Hot: 60, Batches: 8},
	{Name: "one key", Keys: 1, Hot: 14, Cold: 150, Batches: 3},
	{Name: "many leaves", Keys: 600, Hot: 300, Cold: 100, Batches: 5},
	{Name: "streams", Keys: 60, Hot: 50, Cold: 10, Batches: 16, Streams: 3},
	{Name: "streams, many leaves", Keys: 500, Hot: 150, Cold: 50, Batches: 14, Streams: 3},
}

// An action is a call on a structure.
type action uint8

const (
	submit    action = iota // submit a device batch to a stream
	call                    // run a host batch
	link                    // make one stream wait for another
	wait                    // wait for a stream on the host
	sync                    // wait for the structure on the host
	iterate                 // iterate over all pairs, and submit the batch meanwhile
	clear                   // remove all pairs
	closeBusy               // submit a device batch, and close the structure

	// Actions on ordered maps. Each two consecutive keys are the bounds of a range.
	rangeLookup     // look up ranges on a stream
	rangeLookupCall // look up ranges on the host
	rangeDelete     // delete ranges on a stream
	rangeDeleteCall // delete ranges on the host
	takeSnapshot    // take a snapshot
	readSnapshot    // read an open snapshot
	closeSnapshot   // close a snapshot
)

// A batch is an action of a program, usually a list of operations. A uniform batch has a single
// kind and uses the method of that kind.
type batch struct {
	upkeep    string // action before it, if not ""
	action    action
	stream    int // for submit, link and wait
	to        int // the stream that waits in a link
	maxChecks int // number of checks after which the context of a wait ends; 0: never
	uniform   bool
	ops       []weft.Op[uint64, uint64]
}

// A program is a list of batches. The host submits or calls them one after another.
type program []batch

// generate generates a program of a shape. Every value is written only once, so that a value that
// is read identifies its writer.
func generate(rng *rand.Rand, shape Shape, cfg *setup) program {
	g := generator{rng: rng, shape: shape, cfg: cfg, hot: make([]uint64, shape.Keys)}
	for i := range g.hot {
		g.hot[i] = cfg.draw(rng)
		for cfg.Reduce && slices.Contains(g.hot[:i], g.hot[i]) { // no key has many operations
			g.hot[i] = cfg.draw(rng)
		}
	}
	g.next = g.hot[0] % 4 // sometimes 0 and all ones are among the values
	if cfg.Multi {
		g.next = max(g.next, 1) // 0 means no value in histories of multimaps
	}
	if cfg.Reduce { // a single reduction: commuting operations leave fewer orders to try
		g.reduction = [...]weft.OpKind{weft.OpSum, weft.OpSum, weft.OpMax, weft.OpOr}[rng.IntN(4)]
	}
	var p program
	for at := range shape.Batches {
		b := batch{}
		if len(cfg.Upkeep) > 0 && rng.IntN(2) == 0 {
			b.upkeep = cfg.Upkeep[rng.IntN(len(cfg.Upkeep))].Name
		}
		if shape.Streams == 0 {
			if g.fillSequential(&b, at); cfg.atomicBatches {
				p = append(p, b, g.orderedAction(), g.orderedAction(), batch{action: sync})
				continue
			}
			p = append(p, b, batch{action: sync})
			continue
		}
		if cfg.atomicBatches && rng.IntN(2) == 0 {
			p = append(p, g.orderedAction())
			continue
		}
		g.addStreamAction(&b)
		p = append(p, b)
	}
	last := batch{action: closeBusy, uniform: cfg.Uniform}
	g.fill(&last, weft.OpPutNew)
	return append(p, last)
}

// A generator generates batches.
type generator struct {
	rng       *rand.Rand
	shape     Shape
	cfg       *setup
	hot       []uint64
	next      uint64      // number of the next value
	reduction weft.OpKind // the reduction of the program
}

// fillSequential generates the batch at a place of a program without streams.
func (g *generator) fillSequential(b *batch, at int) {
	b.uniform = g.cfg.Uniform || g.rng.IntN(4) == 0 && !g.shape.Fixed
	kind := g.pick()
	if g.shape.Kinds != nil {
		b.uniform, kind = g.cfg.Uniform || g.shape.Kinds[at] != Mixed, g.shape.Kinds[at]
		if b.uniform && kind == Mixed {
			kind = weft.OpGet
		}
	}
	g.fill(b, kind)
}

// addStreamAction generates an action of a program with streams.
func (g *generator) addStreamAction(b *batch) {
	rng := g.rng
	if rng.IntN(3) > 0 { // not too often, because it waits for everything
		b.upkeep = ""
	}
	b.action = [...]action{
		submit, submit, submit, submit, submit, submit, submit, submit, submit, call, call, call, call, call, link, link, wait, wait, sync, iterate, iterate, clear,
	}[rng.IntN(22)]
	b.stream, b.to = rng.IntN(g.shape.Streams), rng.IntN(g.shape.Streams)
	if rng.IntN(4) == 0 {
		b.maxChecks = 1 + rng.IntN(1<<rng.IntN(12))
	}
	if b.action != submit && b.action != call && b.action != iterate {
		return
	}
	kind := weft.OpGet
	if rng.IntN(2) == 0 {
		kind = g.pick()
	}
	b.uniform = g.cfg.Uniform || rng.IntN(3) > 0
	if b.uniform && g.shape.Fixed && kind.Inserts() { // it does not report what did not fit
		kind = weft.OpPutNew
	}
	g.fill(b, kind)
}

// orderedAction generates an action that only ordered maps support.
func (g *generator) orderedAction() (b batch) {
	b.action = [...]action{rangeLookup, rangeLookup, rangeLookup, rangeLookupCall, rangeLookupCall, rangeDelete, rangeDeleteCall, takeSnapshot, takeSnapshot, readSnapshot, readSnapshot, closeSnapshot}[g.rng.IntN(12)]
	b.stream, b.to = g.rng.IntN(max(1, g.shape.Streams)), g.rng.IntN(4)
	if b.action == takeSnapshot || b.action == closeSnapshot {
		return b
	}
	for range 2 * (1 + g.rng.IntN(6)) {
		op := weft.Op[uint64, uint64]{Kind: weft.OpGet, Key: g.hot[g.rng.IntN(len(g.hot))]}
		if g.rng.IntN(8) == 0 {
			op.Key = g.cfg.draw(g.rng)
		}
		b.ops = append(b.ops, op)
	}
	for i := 1; i < len(b.ops); i += 2 { // most ranges have a few keys; deleted ones are short
		if lo, hi := &b.ops[i-1].Key, &b.ops[i].Key; b.action == rangeDelete || b.action == rangeDeleteCall {
			*hi = max(*lo, g.cfg.after(*lo))
		} else if *lo > *hi && g.rng.IntN(8) > 0 {
			*lo, *hi = *hi, *lo
		}
	}
	return b
}

// large is the size of a batch for which structures need more memory than for small ones.
const large = 256

// fill generates the operations of a batch, of one kind if it is uniform.
func (g *generator) fill(b *batch, kind weft.OpKind) {
	rng := g.rng
	if g.cfg.Multi && b.uniform && (b.action == submit || b.action == call) && rng.IntN(4) == 0 {
		b.ops = listOps(g.hot)
		return
	}
	hot, cold := g.shape.Hot, g.shape.Cold
	if g.shape.Streams > 0 && rng.IntN(4) == 0 { // batches of several sizes
		hot = 1 + rng.IntN(2*hot)
		if g.shape.Fixed && rng.IntN(2) == 0 {
			hot += large
		}
	}
	for i := range hot + cold {
		op := weft.Op[uint64, uint64]{Kind: kind, Value: g.cfg.value(g.next)}
		g.next++
		if !b.uniform {
			op.Kind = g.pick()
			if g.cfg.Updates && rng.IntN(5) == 0 {
				op.Kind = weft.OpUpdate
			}
		}
		switch {
		case i < hot && g.cfg.Reduce:
			op.Key = g.hot[i%len(g.hot)]
		case i < hot:
			op.Key = g.hot[rng.IntN(len(g.hot))]
		default:
			op.Key = g.cfg.draw(rng)
			for g.cfg.Reduce && slices.Contains(g.hot, op.Key) {
				op.Key = g.cfg.draw(rng)
			}
		}
		b.ops = append(b.ops, op)
	}
	rng.Shuffle(len(b.ops), func(i, j int) { b.ops[i], b.ops[j] = b.ops[j], b.ops[i] })
}

// pick draws a kind of operation.
func (g *generator) pick() weft.OpKind {
	if g.cfg.Reduce && g.rng.IntN(2) == 0 {
		return g.reduction
	}
	return pick(g.rng, g.cfg.Multi)
}

// pick draws a kind of operation, without reductions. Multimaps get more insertions, because one
// DeleteAll removes many values.
func pick(rng *rand.Rand, multi bool) weft.OpKind {
	if !multi {
		return weft.OpKind(rng.IntN(4))
	}
	kinds := [...]weft.OpKind{weft.OpGet, weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDelete, weft.OpDeleteAll}
	return kinds[rng.IntN(len(kinds))]
}

// listOps returns operations that list all values of keys, each once.
func listOps(keys []uint64) (ops []weft.Op[uint64, uint64]) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, k := range keys {
		ops = append(ops, weft.Op[uint64, uint64]{Kind: getAll, Key: k})
	}
	return ops
}

// draw draws a key, sometimes one that looks reserved.
func (n *types) draw(rng *rand.Rand) uint64 {
	if rng.IntN(8) == 0 {
		return n.key(^uint64(0) - rng.Uint64N(4))
	}
	return n.key(rng.Uint64())
}

// value returns the i-th of many different values: 0, all ones, then values that differ in all
// bits. An odd factor keeps them different.
func (n *types) value(i uint64) uint64 {
	if i == 1 {
		return n.val(^uint64(0))
	}
	return n.val(i * 0x9e3779b97f4a7c15)
}

// String formats the program for people.
func (p program) String() string {
	var s strings.Builder
	for i, b := range p {
		if b.upkeep != "" {
			fmt.Fprintf(&s, "%s; ", b.upkeep)
		}
		fmt.Fprintf(&s, "%d: %s", i, b.label())
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

// label describes a batch.
func (b *batch) label() (s string) {
	mode := "mixed"
	if b.uniform {
		mode = "uniform"
	}
	switch b.action {
	case submit:
		return fmt.Sprintf("batch on stream %d, %s, %d operations:", b.stream, mode, len(b.ops))
	case call:
		s = fmt.Sprintf("batch of the host, %s, %d operations:", mode, len(b.ops))
	case link:
		return fmt.Sprintf("stream %d waits for stream %d", b.to, b.stream)
	case wait:
		s = fmt.Sprintf("wait for stream %d", b.stream)
	case sync:
		s = "Sync"
	case iterate:
		return fmt.Sprintf("Pages, and meanwhile a batch on stream %d, %s, %d operations:", b.stream, mode, len(b.ops))
	case clear:
		return "Clear"
	case rangeLookup, rangeLookupCall, rangeDelete, rangeDeleteCall, takeSnapshot, readSnapshot, closeSnapshot:
		return fmt.Sprintf("%s on stream %d, snapshot %d:", [...]string{
			"ranges", "ranges of the host", "DeleteRangeOn", "DeleteRange", "Snapshot", "ranges of a snapshot", "Close of a snapshot"}[b.action-rangeLookup], b.stream, b.to)
	case closeBusy:
		return fmt.Sprintf("Close beside a batch on stream %d, %s, %d operations:", b.stream, mode, len(b.ops))
	}
	if b.maxChecks > 0 {
		s += fmt.Sprintf(" (the context ends when asked %d times)", b.maxChecks)
	}
	return s
}

func describe(op weft.Op[uint64, uint64]) string {
	if op.Kind.Inserts() || op.Kind == weft.OpUpdate {
		return fmt.Sprintf("%v(%#x,%#x)", op.Kind, op.Key, op.Value)
	}
	if op.Kind == getAll {
		return fmt.Sprintf("GetAll(%#x)", op.Key)
	}
	return fmt.Sprintf("%v(%#x)", op.Kind, op.Key)
}

// size returns the number of operations.
func (p program) size() (n int) {
	for _, b := range p {
		n += len(b.ops)
	}
	return n
}
