package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftgo/weft"
)

// Shape describes the size of programs and the kind of contention that they cause.
type Shape struct {
	Name     string
	Capacity int  // capacity of the structure; 0: it starts small and grows
	Fixed    bool // the structure must not grow
	Keys     int  // number of hot keys
	Hot      int  // number of operations on hot keys per batch
	Cold     int  // number of operations on unique keys per batch
	Batches  int
	Kinds    []weft.OpKind // kind of each batch, possibly [Mixed]; nil: any
	// Streams is the number of streams. Their batches overlap with each other, with host batches,
	// iterations and waits. With 0, batches run one after another.
	Streams int
}

// Mixed in [Shape.Kinds] selects a batch with operations of all kinds.
const Mixed = weft.OpKind(0xff)

// Shapes are the default shapes of [Config].
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
// identify the operation that wrote it, so a search must try all orders. So there are few
// operations on each key, from several warps.
var reducingShapes = []Shape{
	{Name: "sums of some keys", Capacity: 200, Keys: 24, Hot: 96, Batches: 3},
	{Name: "sums of one key", Capacity: 300, Keys: 1, Hot: 6, Cold: 60, Batches: 3},
	{Name: "sums around growth", Keys: 24, Hot: 72, Cold: 16, Batches: 4},
	{Name: "sums around full", Capacity: 24, Fixed: true, Keys: 40, Hot: 80, Batches: 3},
	{Name: "sums on streams", Capacity: 100, Keys: 20, Hot: 40, Batches: 6, Streams: 3},
}

// atomicShapes are the shapes of programs for ordered maps with atomic batches. The pairs fill a
// few leaves or dozens, and most pairs of a leaf are deleted.
var atomicShapes = []Shape{
	{Name: "few leaves", Keys: 60, Hot: 60, Batches: 8},
	{Name: "one key", Keys: 1, Hot: 14, Cold: 150, Batches: 3},
	{Name: "many leaves", Keys: 600, Hot: 300, Cold: 100, Batches: 5},
	{Name: "streams", Keys: 60, Hot: 50, Cold: 10, Batches: 16, Streams: 3},
	{Name: "streams, many leaves", Keys: 500, Hot: 150, Cold: 50, Batches: 14, Streams: 3},
}

type action uint8

const (
	submit    action = iota // submit a device batch to a stream
	call                    // run a host batch
	link                    // make one stream wait for another
	wait                    // wait for a stream on the host
	sync                    // wait for the structure on the host
	iterate                 // iterate over all pairs, and submit the batch meanwhile
	clear                   // remove all pairs
	closeBusy               // submit a device batch, and close the structure while it runs

	// Actions on ordered maps. Two consecutive keys are the bounds of a range.
	rangeLookup     // look up ranges on a stream
	rangeLookupCall // look up ranges on the host
	rangeDelete     // delete ranges on a stream
	rangeDeleteCall // delete ranges on the host
	takeSnapshot    // take a snapshot
	readSnapshot    // read an open snapshot
	closeSnapshot   // close a snapshot
)

// batch is one action of a program, usually with a list of operations. A uniform batch has
// operations of a single kind and runs with the method for that kind.
type batch struct {
	upkeep    string // name of the Upkeep before the action, or ""
	action    action
	stream    int // for submit, link and wait
	to        int // the stream that waits, for link
	maxChecks int // number of checks of the call's context after which it ends; 0: it never ends
	uniform   bool
	ops       []weft.Op[uint64, uint64]
}

type program []batch

// generate returns a random program of a shape. Each value is written only once, so that a value
// that was read identifies the operation that wrote it.
func generate(rng *rand.Rand, shape Shape, cfg *setup) program {
	g := generator{rng: rng, shape: shape, cfg: cfg, hot: make([]uint64, shape.Keys)}
	for i := range g.hot {
		g.hot[i] = cfg.draw(rng)
		// so that no key has many operations
		for cfg.Reduce && slices.Contains(g.hot[:i], g.hot[i]) {
			g.hot[i] = cfg.draw(rng)
		}
	}
	g.next = g.hot[0] % 4 // so that 0 and all ones are sometimes among the values
	if cfg.Multi {
		g.next = max(g.next, 1) // in histories of multimaps, 0 means no value
	}
	if cfg.Reduce { // a single reduction, because commuting operations leave fewer orders to try
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

type generator struct {
	rng       *rand.Rand
	shape     Shape
	cfg       *setup
	hot       []uint64
	next      uint64      // index of the next value
	reduction weft.OpKind // reduction that the program uses
}

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

func (g *generator) addStreamAction(b *batch) {
	rng := g.rng
	if rng.IntN(3) > 0 { // make upkeep rare, because it waits for all work
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
	// other kinds do not report operations that overflow
	if b.uniform && g.shape.Fixed && kind.Inserts() {
		kind = weft.OpPutNew
	}
	g.fill(b, kind)
}

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
	for i := 1; i < len(b.ops); i += 2 { // most ranges have a few keys; ranges to delete are short
		if lo, hi := &b.ops[i-1].Key, &b.ops[i].Key; b.action == rangeDelete || b.action == rangeDeleteCall {
			*hi = max(*lo, g.cfg.after(*lo))
		} else if *lo > *hi && g.rng.IntN(8) > 0 {
			*lo, *hi = *hi, *lo
		}
	}
	return b
}

// large is a batch size for which structures need more memory than for small batches.
const large = 256

// fill generates the operations of a batch. If the batch is uniform, all have the given kind.
func (g *generator) fill(b *batch, kind weft.OpKind) {
	rng := g.rng
	if g.cfg.Multi && b.uniform && (b.action == submit || b.action == call) && rng.IntN(4) == 0 {
		b.ops = listOps(g.hot)
		return
	}
	hot, cold := g.shape.Hot, g.shape.Cold
	if g.shape.Streams > 0 && rng.IntN(4) == 0 { // vary the size of batches
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

func (g *generator) pick() weft.OpKind {
	if g.cfg.Reduce && g.rng.IntN(2) == 0 {
		return g.reduction
	}
	return pick(g.rng, g.cfg.Multi)
}

// pick returns a random kind of operation other than a reduction. For multimaps it prefers
// insertions, because one DeleteAll removes many values.
func pick(rng *rand.Rand, multi bool) weft.OpKind {
	if !multi {
		return weft.OpKind(rng.IntN(4))
	}
	kinds := [...]weft.OpKind{weft.OpGet, weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDelete, weft.OpDeleteAll}
	return kinds[rng.IntN(len(kinds))]
}

// listOps returns operations that list all values of each distinct key.
func listOps(keys []uint64) (ops []weft.Op[uint64, uint64]) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, k := range keys {
		ops = append(ops, weft.Op[uint64, uint64]{Kind: getAll, Key: k})
	}
	return ops
}

// draw returns a random key, sometimes a key that looks like a sentinel.
func (n *types) draw(rng *rand.Rand) uint64 {
	if rng.IntN(8) == 0 {
		return n.key(^uint64(0) - rng.Uint64N(4))
	}
	return n.key(rng.Uint64())
}

// value returns value number i of a sequence: 0, all ones, then values that differ in all bits. The
// factor is odd, so all values are distinct.
func (n *types) value(i uint64) uint64 {
	if i == 1 {
		return n.val(^uint64(0))
	}
	return n.val(i * 0x9e3779b97f4a7c15)
}

// String formats the program, one batch per line.
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

func (p program) size() (n int) {
	for _, b := range p {
		n += len(b.ops)
	}
	return n
}
