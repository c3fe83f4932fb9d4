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
	// MinMemoryOn is the least Options.Memory of [ByOn] on a GPU.
	MinMemoryOn = 64 << 20
	// baseBytes is the memory of tables without groups on an H200, most of it lists of blocks.
	baseBytes = 12 << 20
	// piecesOfMemory: a piece takes this part of the memory, if that is less than the default.
	piecesOfMemory = 32
	// piecesInUse is the memory in pieces: those in slots, up to 42 bytes a row for picking rows,
	// and a copy of the rows. Feeds count at least 8 bytes a row.
	piecesInUse = feed.Slots + 7
)

// ByOn groups rows of host columns on a device, for any number of rows and groups, and returns
// groups in ascending order of their keys, like [GroupsOn.Result]. Rows are copied to a GPU as by
// [GroupsOn.Add]. Page-locked columns are fastest.
//
// Options.Memory bounds the device memory of the call, at least MinMemoryOn. By default the call
// may use all free memory. Groups that exceed it are taken in partitions, by a hash of their keys:
// all rows are copied once more for each, and kernels pick those of the partition. That needs no
// host memory, and up to four copies take less time than writing the rows to page-locked memory and
// reading them back. The first copy ends when the groups exceed memory. Options.Capacity saves that
// copy if it shows in advance that they will. Memory too small for 65536 partitions is
// device.ErrMemory.
//
// On a device of the host it is [By] with Options.Sorted. Other errors are those of [GroupsOn.Add]
// and [GroupsOn.Result]. More than 2^32 - 1 groups are device.ErrInvalid.
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
	r, err := j.run(ctx, dev)
	if err != nil {
		return nil, fmt.Errorf("group: ByOn: %w", err)
	}
	return r, nil
}

// pieceFor returns the size of pieces under a bound of memory; 0 is no bound.
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
	memory       int64          // of the device; 0: no bound
	piece        int            // bytes
	base         int            // bytes of tables without groups
	sizes        groups.Options // of tables; tests take small ones

	n       int
	dev     *budget.Device
	l       *layout
	seed    uint64
	pending []partition // the next one last
	results []*Result
	passes  int // over the rows
	copied  int // rows, in all passes
}

// partition is one partition: its number, the number of partitions, and its maximum number of
// groups.
type partition struct{ number, count, capacity int }

func (j *byOnCall) run(ctx context.Context, dev device.Device) (*Result, error) {
	r, err := j.collect(ctx, dev)
	if err != nil {
		return nil, err
	}
	return sortedByKeys(ctx, r)
}

// collect returns the groups of all rows, in no order.
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

// open checks the columns and finds the first shares.
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

// newGroups makes the groups of a share, without memory yet.
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

// runPass takes the groups of a share, or splits it if they exceed memory.
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

// groups returns the groups of all rows of a share.
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

// nUsed returns a bound on the number of groups.
func (g *gpuGroups) nUsed() (n int) {
	for _, t := range g.tables() {
		n += t.Used()
	}
	return n
}

// estimate returns the number of groups of n rows if the first rows have used groups. If keys are
// drawn at random from N, r rows have N(1-exp(-r/N)) of them. Rows of a partition that exceeded
// memory, though an earlier estimate sized it, are assumed to have groups in proportion.
func estimate(used, rows, n int, inProportion bool) float64 {
	found, r, all := float64(used), float64(rows), float64(n)
	if inProportion {
		return found * all / r
	}
	of := func(keys, rows float64) float64 { return -keys * math.Expm1(-rows/keys) }
	lo, hi := found, 1000*all // if all rows are different groups
	for range 64 {
		if mid := lo + (hi-lo)/2; of(mid, r) < found {
			lo = mid
		} else {
			hi = mid
		}
	}
	return of(hi, all)
}

// split divides a share into shares that fit memory, by an estimate of its groups. cause is the
// error of the share.
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
	if s.count > 1 { // its estimate was too low
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

// groupBytes returns the memory of a group in tables, with that of its result.
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
