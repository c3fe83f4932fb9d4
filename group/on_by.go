package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/budget"
	"github.com/weftgo/weft/internal/gpu/feed"
	"github.com/weftgo/weft/internal/gpu/groups"
	"github.com/weftgo/weft/internal/op"
)

const (
	// MinMemoryOn is the least Options.Memory of [ByOn] on a GPU, in bytes.
	MinMemoryOn = 64 << 20
	// baseBytes is the memory in bytes of tables without groups, measured on an H200.
	baseBytes = 12 << 20
	// piecesOfMemory divides Options.Memory to give the bytes of a piece, at most feed.PieceBytes.
	piecesOfMemory = 32
	// piecesInUse is the memory for rows, in pieces: the slots of the feed, up to 42 bytes per row
	// to select rows, and a copy of the rows. In a piece, a row counts as at least 8 bytes.
	piecesInUse = feed.Slots + 7
)

// ByOn groups rows of host columns on a device, for any number of rows and groups. It returns
// groups in ascending order of their keys, like [GroupsOn.Result]. It copies rows to a GPU as
// [GroupsOn.Add] does. Page-locked columns are fastest.
//
// Options.Memory bounds the device memory of the call and is at least MinMemoryOn. By default the
// call may use all free memory. If groups exceed it, ByOn partitions them by a hash of their keys.
// It copies all rows once more for each partition, and kernels select the rows of the partition.
// This needs no host memory. Up to four copies take less time than writing the rows to page-locked
// memory and reading them back. The first copy stops when the groups exceed memory. It is skipped
// if Options.Capacity already exceeds memory. If 65536 partitions do not suffice, ByOn returns
// device.ErrMemory.
//
// On a device of the host, ByOn is [By] with Options.Sorted. For more than 2^32 - 1 groups, ByOn
// returns device.ErrInvalid. See [GroupsOn.Add] and [GroupsOn.Result] for other errors.
func ByOn(
	ctx context.Context, dev device.Device, keys, values []column.Column, aggs []Aggregate,
	opts *Options,
) (*Result, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	if host, ok := dev.(device.Host); ok {
		o.Sorted = true
		return By(ctx, host, keys, values, aggs, &o)
	}
	if o.Memory > 0 && o.Memory < MinMemoryOn {
		return nil, fmt.Errorf("group: %w: Options.Memory is %d, want 0 or at least %d on a GPU",
			op.ErrOptions, o.Memory, MinMemoryOn)
	}
	j := byOnCall{
		keys: keys, values: values, aggs: aggs, opts: o, memory: o.Memory,
		piece: pieceFor(o.Memory), base: baseBytes,
	}
	j.opts.Memory = 0
	if err := checkOn(aggs, j.opts); err != nil {
		return nil, err
	}
	if err := checkGPU(aggs); err != nil {
		return nil, fmt.Errorf("group: ByOn: %w", err)
	}
	r, err := j.run(ctx, dev)
	if err != nil {
		return nil, fmt.Errorf("group: ByOn: %w", err)
	}
	return r, nil
}

// pieceFor returns the size in bytes of a piece of host columns under a bound of device memory. A
// bound of 0 means no bound.
func pieceFor(memory int64) int {
	if memory == 0 {
		return feed.PieceBytes
	}
	return int(min(feed.PieceBytes, memory/piecesOfMemory))
}

// byOnCall is a call of ByOn on a GPU.
type byOnCall struct {
	keys, values []column.Column
	aggs         []Aggregate
	opts         Options        // without Memory
	memory       int64          // bound of device memory; 0: none
	piece        int            // bytes of a piece
	base         int            // bytes of tables without groups
	sizes        groups.Options // sizes of tables; smaller in tests

	n       int
	dev     *budget.Device
	l       *layout
	seed    uint64
	pending []partition // partitions to do; the last one is next
	results []*Result
	passes  int // passes over the rows
	copied  int // rows copied in all passes
}

// partition is one of count partitions. capacity is the number of groups that its tables first
// allocate memory for.
type partition struct{ number, count, capacity int }

func (j *byOnCall) run(ctx context.Context, dev device.Device) (*Result, error) {
	r, err := j.collect(ctx, dev)
	if err != nil {
		return nil, err
	}
	return sortedByKeys(ctx, r)
}

func (j *byOnCall) collect(ctx context.Context, dev device.Device) (r *Result, err error) {
	j.dev, j.seed = budget.New(dev, j.memory), rand.Uint64()
	defer func() {
		if err = errors.Join(err, j.dev.Release()); err != nil {
			r = nil
		}
	}()
	if err := j.open(); err != nil {
		return nil, err
	}
	for len(j.pending) > 0 {
		last := len(j.pending) - 1
		s := j.pending[last]
		j.pending = j.pending[:last]
		if err := j.runPass(ctx, s); err != nil {
			return nil, err
		}
	}
	return concat(j.results)
}

// open checks the columns and plans the first partitions.
func (j *byOnCall) open() (err error) {
	j.n = length(j.keys, j.values)
	if err := errors.Join(fixed(j.keys, j.values), groups.Check(j.dev)); err != nil {
		return err
	}
	if j.l, err = newLayout(j.aggs, typesOf(j.keys), typesOf(j.values), false); err != nil {
		return err
	}
	maxGroups, err := j.capacity()
	if err != nil {
		return err
	}
	whole := partition{count: 1, capacity: min(j.opts.Capacity, j.n)}
	if whole.capacity > max(maxGroups, 0) && len(j.keys) > 0 {
		return j.split(whole, float64(whole.capacity), nil)
	}
	j.pending = []partition{whole}
	return nil
}

// newGroups returns empty groups for a partition. It allocates no device memory.
func (j *byOnCall) newGroups(s partition) *gpuGroups {
	g := &gpuGroups{dev: j.dev, funcs: j.aggs, opts: j.opts, sizes: j.sizes, piece: j.piece}
	g.opts.Capacity = s.capacity
	for i, c := range j.values {
		if c.HasNulls() && g.reads(i) {
			g.nulled = append(g.nulled, i)
		}
	}
	if s.count > 1 {
		g.part = &partitionFilter{number: s.number, count: s.count, seed: j.seed, dev: j.dev}
	}
	g.bind(j.l)
	return g
}

// runPass collects the groups of a partition, or splits it if they exceed memory.
func (j *byOnCall) runPass(ctx context.Context, s partition) (err error) {
	j.passes++
	g := j.newGroups(s)
	if err := g.allocate(); err != nil {
		if s.capacity == 0 || !errors.Is(err, device.ErrMemory) {
			return err
		}
		s.capacity /= 2 // others use memory, too
		j.pending = append(j.pending, s)
		return nil
	}
	var full *fullError
	var used int
	r, err := j.groups(ctx, g)
	if errors.As(err, &full) {
		used = g.nUsed()
		j.copied += full.rows
	} else {
		j.copied += j.n
	}
	if end := g.close(); end != nil {
		return errors.Join(err, end)
	}
	switch {
	case err == nil:
		j.results = append(j.results, r)
		return nil
	case full == nil || len(j.keys) == 0 || j.n == 0:
		return err
	}
	return j.split(s, estimate(used, full.rows, j.n, s.count > 1), full.err)
}

// groups adds all rows of a partition and returns its groups.
func (j *byOnCall) groups(ctx context.Context, g *gpuGroups) (*Result, error) {
	if j.n > 0 {
		if err := g.addHost(ctx, j.keys, j.values, j.n); err != nil {
			return nil, err
		}
	}
	r, err := g.download(ctx)
	if errors.Is(err, device.ErrMemory) {
		err = &fullError{j.n, err}
	}
	return r, err
}

// nUsed returns an upper bound on the number of groups.
func (g *gpuGroups) nUsed() (n int) {
	for _, t := range g.tables() {
		n += t.Used()
	}
	return n
}

// estimate returns the expected number of groups in n rows. Parameter rows is the number of rows
// added so far, and used is the number of their groups. If keys are drawn at random from N, r rows
// have N(1-exp(-r/N)) distinct keys. A partition that exceeded memory although an earlier estimate
// sized it needs a safer estimate. With inProportion, groups are assumed to grow in proportion to
// rows.
func estimate(used, rows, n int, inProportion bool) float64 {
	found, r, all := float64(used), float64(rows), float64(n)
	if inProportion {
		return found * all / r
	}
	of := func(keys, rows float64) float64 { return -keys * math.Expm1(-rows/keys) }
	lo, hi := found, 1000*all // covers the case that all rows have distinct keys
	for range 64 {
		if mid := lo + (hi-lo)/2; of(mid, r) < found {
			lo = mid
		} else {
			hi = mid
		}
	}
	return of(hi, all)
}

// split divides a partition into smaller ones that fit memory. groups is the estimated number of
// its groups, and cause is the error that its pass returned.
func (j *byOnCall) split(s partition, groups float64, cause error) error {
	maxGroups, err := j.capacity()
	if err != nil {
		return err
	}
	const spare = 1.1 // partitions differ, and estimates are inexact
	n := 2
	if maxGroups > 0 {
		n = max(n, int(min(math.Ceil(spare*groups/float64(maxGroups)), column.MaxParts)))
	}
	if n = min(n, column.MaxParts/s.count); n < 2 {
		return fmt.Errorf("groups exceed memory in one of %d partitions: %w", s.count, cause)
	}
	capacity := max(0, min(maxGroups, int(spare*groups)/n))
	if s.count > 1 { // the earlier estimate was too low
		capacity = min(capacity, s.capacity/2)
	}
	for i := n - 1; i >= 0; i-- {
		j.pending = append(j.pending, partition{s.number*n + i, s.count * n, capacity})
	}
	return nil
}

// capacity returns the number of groups that fit memory together with their result.
func (j *byOnCall) capacity() (int, error) {
	m, err := j.dev.Memory()
	if err != nil {
		return 0, err
	}
	free := 0.9*float64(m.Free) - float64(j.base+piecesInUse*j.piece)
	return int(free / float64(j.newGroups(partition{count: 1}).groupBytes())), nil
}

// groupBytes returns the bytes that a group needs in tables and in the result.
func (g *gpuGroups) groupBytes() int {
	l := g.layout(groups.Keys{})
	n := l.GroupBytes()
	if !g.packable {
		n += groups.NumberBytes(g.keyTypes())
	}
	for _, t := range g.l.keys {
		n += t.Size() + 1 // a bit for null
	}
	for _, r := range g.l.readings {
		n += typeOf(r, g.l).Size() + 1
	}
	return n
}
