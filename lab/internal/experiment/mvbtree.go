package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/lab/internal/mixedtree"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// The experiments on trees with versions follow chapter 4 of Awad's thesis ("Fully Concurrent GPU
// Data Structures", 2022), which used a V100.

// treeKinds are the measured kinds of trees. Awad's thesis calls them B-Tree, ViB-Tree and
// VoB-Tree.
var treeKinds = []struct {
	name     string
	versions btree.Versions
}{{"btree", btree.Whole}, {"btree-in-place", btree.InPlace}, {"btree-out-of-place", btree.OutOfPlace}}

// openTrees opens a tree of each given kind.
func openTrees(r *runner, kinds ...btree.Versions) (maps []*orderedMap[uint32, uint32], trees []*btree.Map[uint32, uint32], err error) {
	for _, v := range kinds {
		m, err := btree.New[uint32, uint32](r.Device, &btree.Options{Versions: v})
		if err != nil {
			return nil, nil, errors.Join(err, closeOrdered(maps))
		}
		trees = append(trees, m)
		maps = append(maps, &orderedMap[uint32, uint32]{mapOf: m.OrderedMap, name: treeKinds[v].name, bytes: func(ctx context.Context) (int, int, error) {
			s, err := m.Stats(ctx)
			return s.Bytes, unknown, err
		}})
	}
	return maps, trees, nil
}

var mvbtreeInsertExperiment = Experiment{
	Name:  "awad-fig4.2",
	Was:   "mvbtree-insert",
	Title: "What versions of a B-tree cost: insertions and lookups",
	Doc: `After figure 4.2 of Awad's thesis: trees of 10^6 to 4 * 10^7 pairs (2^14 to 2^20 on a CPU; as many as --n says) of random 32-bit keys and values are built by
batches of 2^20 insertions (2^14 on a CPU), and all keys are looked up: without versions (btree), with versions that are changed in place (ViB-Tree of the
thesis) and with copies for every change (VoB-Tree). No snapshot is held. speedup is the rate over that without versions. On a CPU the three are one, which keeps versions in place while a
snapshot is held. The limit of insertions is random compare-and-swaps of 64 bits, of lookups random reads of 64 bytes, in a region as large as the pairs. Published beside it are the means of the
thesis over trees of 10^6 to 4.5 * 10^7 keys on a V100: 240, 217 and 95 M insertions, 1513, 1454 and 1550 M lookups a second.`,
	run: runMVBTreeInsert,
	plots: func(res *Result) []Plot {
		return nonEmpty(
			plotOverKeys(res, "awad-fig4.2-insert", "Insertions", func(row Row) bool { return row.Op == "insert" }),
			plotOverKeys(res, "awad-fig4.2-find", "Lookups", func(row Row) bool { return row.Op == "get_hit" }))
	},
}

// published42 has the means of figure 4.2, in the order of treeKinds.
var published42 = map[string][]float64{"insert": {240.065e6, 216.512e6, 94.605e6}, "get_hit": {1512.964e6, 1453.697e6, 1549.977e6}}

// minTree is the ratio of the largest to the smallest number of keys.
const minTree = 32

func runMVBTreeInsert(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 40_000_000, 2*orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	limit, err := r.changeLimit(ctx, n)
	if err != nil {
		return err
	}
	t, err := newTrialOf(r, n, n, func() (maps []*orderedMap[uint32, uint32], err error) {
		maps, _, err = openTrees(r, btree.Whole, btree.InPlace, btree.OutOfPlace)
		return maps, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free()) }()
	t.read, t.write = roofline.Read64, limit
	if t.cols.out, err = device.Make[uint32](r.Device, n); err != nil {
		return err
	}
	size := min(r.size(1<<14, 1<<20), max(1, n/4))
	r.result.Parameters["batch"] = size
	factor := map[Scale]int{Quick: minTree, Default: 4, Full: 2}[r.Scale]
	for keys := max(1, n/minTree); keys <= n; keys *= factor {
		if keys*factor > n {
			keys = n
		}
		for kind, m := range t.maps {
			t.use(m)
			if err := t.built(ctx, kind, keys, size); err != nil {
				return fmt.Errorf("%s: %d keys: %w", m.name, keys, err)
			}
		}
	}
	return nil
}

// built measures building a tree of n keys by batches, and looking up all keys.
func (t *orderedTrial[K, V]) built(ctx context.Context, kind, n, size int) error {
	t.begin(fmt.Sprintf("%d insertions", n))
	elapsed, err := t.median(ctx, func() error { return t.m.Clear(ctx) }, func() error {
		for lo := 0; lo < n; lo += size {
			keys, vals := t.of(lo, min(n, lo+size))
			if err := t.m.put(t.stream, keys, vals); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = t.has(ctx, n)
	}
	if err != nil {
		return err
	}
	t.compared("insert", n, elapsed, t.write, Row{Keys: n}, published42["insert"][kind])
	keys, _ := t.of(0, n)
	t.begin("get_hit")
	if elapsed, err = t.median(ctx, nil, func() error { return t.m.get(t.stream, keys, t.cols.out.Sub(0, n), device.Slice[bool]{}) }); err != nil {
		return err
	}
	if err := checkValues(ctx, t.runner, keys, t.cols.out.Sub(0, n)); err != nil {
		return err
	}
	t.compared("get_hit", n, elapsed, t.read, Row{Keys: n}, published42["get_hit"][kind])
	return nil
}

// compared reports a rate. It adds the published rate unless that is 0, and the speedup over the
// tree without versions, which has been measured already.
func (t *orderedTrial[K, V]) compared(op string, n int, elapsed time.Duration, limit string, row Row, published float64) {
	for _, base := range t.result.Rows {
		if base.Structure == treeKinds[0].name && base.Op == op && base.Keys == row.Keys && t.structure != base.Structure {
			row.Speedup = figure(float64(n) / elapsed.Seconds() / base.OpsPerS)
		}
	}
	if t.onGPU() && published > 0 {
		row.PublishedOpsPerS = figure(published)
	}
	t.report(op, n, elapsed, limit, row)
}

var (
	mvbtreeMixedExperiment = Experiment{
		Name:  "awad-table4.1",
		Also:  []string{"awad-table4.2", "awad-fig4.3", "awad-fig4.4", "awad-fig4.5"},
		Was:   "mvbtree-mixed",
		GPU:   true,
		Title: "Changes and questions in one launch: B-trees with versions, whose ranges are linearizable, and without",
		Doc: `After tables 4.1 and 4.2 and figures 4.3 to 4.5 of Awad's thesis, by a kernel of a user: some blocks of a launch insert (or delete), the others read ranges (or look up), 5 * 10^6 operations
together (as many as --n allows) on 10^6 and 4 * 10^7 pairs (2^14 on a simulated GPU; as many as --n says) of random 32-bit keys and values. insert_range_A_L: A % are insertions and ranges have L pairs on average, and
for A = 50 of 4 to 1024 (figure 4.4); delete_get_A: A % are deletions. btree-out-of-place takes a snapshot for each range (VoB-Tree), btree takes none, and its ranges may see half of what another thread has done. speedup is the
rate over that without versions. Published beside it: the rates of the thesis on a V100. The limit is random compare-and-swaps of 64 bits in a region as large as the pairs.`,
		run:   runMVBTreeMixed,
		plots: plotMVBTreeMixed,
	}
	mvbtreeMemoryExperiment = Experiment{
		Name:  "awad-fig4.6",
		Was:   "mvbtree-memory",
		GPU:   true,
		Title: "Memory of a B-tree with versions while kernels change it",
		Doc: `After figure 4.6 of Awad's thesis: launches that insert in half of their blocks, and read ranges of 16 pairs at snapshots in the others, on a tree of 4.5 * 10^7 pairs (2^14 on a simulated GPU; as many as --n says) whose copies are
reclaimed by epochs: as many operations as there are pairs, in eight launches of one row each. Then the last sixteenth of the pairs are deleted and inserted again, beside ranges: four times, and with --full for eight minutes of that tree, with
a row for some of the launches. A tree without versions is changed alike, and one with versions in place (ViB-Tree) gets the same pairs by batches, and no snapshot. samples are nodes behind the launch: in use, what leaves were and not free yet, free again, and copied so far;
table_bytes is the memory of all of them, with what lies beside. The parameter overhead_in_place is, as in the thesis, that memory behind the eight launches over that of the tree in place: what reclamation takes. overhead is that of nodes in use and of those that wait for the end of epochs over that of a tree
without versions, overhead_bytes that of all memory, what versions take included, and steady_growth by how much that has grown in the end. The thesis has 981 MB and 950 MB.`,
		run: runMVBTreeMemory,
		plots: func(res *Result) []Plot {
			p := Plot{Name: "awad-fig4.6", Title: "Nodes while kernels change a tree", XLabel: "launches", YLabel: "nodes"}
			launch := 0.
			for _, row := range res.Rows {
				if row.Structure != treeKinds[btree.OutOfPlace].name || launch == memoryLaunches {
					continue
				}
				launch++
				for i, name := range []string{"in use", "waiting", "free again", "copied"} {
					p.point(name, launch, row.Samples[i])
				}
			}
			return nonEmpty(p)
		},
	}
)

// published4 has tables 4.1 and 4.2 for the larger tree, by operation: the rate without versions,
// and with versions.
var published4 = map[string][2]float64{
	"insert_range_5_8": {228.694e6, 248.86e6}, "insert_range_50_8": {220.186e6, 127.256e6}, "insert_range_90_8": {222.729e6, 95.391e6},
	"insert_range_5_32": {240.13e6, 214.679e6}, "insert_range_50_32": {213.199e6, 117.642e6}, "insert_range_90_32": {220.329e6, 92.154e6},
	"delete_get_5": {433.462e6, 369.835e6}, "delete_get_50": {424.131e6, 367.432e6}, "delete_get_90": {399.863e6, 346.188e6},
}

// mixedTrial measures launches that change and read trees.
type mixedTrial struct {
	*orderedTrial[uint32, uint32]
	trees   []*btree.Map[uint32, uint32]
	kinds   []btree.Versions
	kernels *mixedtree.Kernels
	counts  device.Slice[uint32]
	sum     device.Slice[uint64]
	ops     int // operations per launch
}

func newMixedTrial(ctx context.Context, r *runner, n, most int, kinds ...btree.Versions) (x *mixedTrial, err error) {
	x = &mixedTrial{kinds: kinds, ops: min(most, n)}
	limit, err := r.changeLimit(ctx, n)
	if err != nil {
		return nil, err
	}
	x.orderedTrial, err = newTrialOf(r, n+x.ops, n, func() (maps []*orderedMap[uint32, uint32], err error) {
		maps, x.trees, err = openTrees(r, kinds...)
		return maps, err
	})
	if err != nil {
		return nil, err
	}
	x.write = limit
	if x.kernels, err = mixedtree.Open(r.Device); err == nil {
		x.counts, err = device.Make[uint32](r.Device, x.ops)
	}
	if err == nil {
		x.sum, err = device.Make[uint64](r.Device, 1)
	}
	if err == nil {
		err = r.stream.Fill(x.sum.Ptr(), 0, 2)
	}
	if err != nil {
		return nil, errors.Join(err, x.free())
	}
	return x, nil
}

func (x *mixedTrial) free() error {
	return errors.Join(x.orderedTrial.free(), x.counts.Free(), x.sum.Free())
}

// load returns a launch with the given percentage of updates, which use the pairs from number lo
// on. If pairs is not 0, queries are ranges of about that number of pairs.
func (x *mixedTrial) load(kind op.Kind, percent, pairs, lo int) mixedtree.Load {
	n := max(1, x.ops*percent/100)
	l := mixedtree.Load{Kind: kind, Counts: x.counts, Sum: x.sum}
	if l.Updates, l.Vals = x.of(lo, lo+n); kind == op.Delete {
		l.Vals = device.Slice[uint32]{}
	}
	asked := max(1, x.ops-n)
	l.Queries, _ = x.of(x.n-asked, x.n)
	if pairs > 0 {
		l.Span = int(min(uint64(pairs)<<32/uint64(x.n), 1<<32-1))
	}
	return l
}

// mixed measures a launch on a tree that is reloaded before each run.
func (x *mixedTrial) mixed(ctx context.Context, kind int, name string, l mixedtree.Load) error {
	x.begin(name)
	n := l.Updates.Len() + l.Queries.Len()
	elapsed, err := x.median(ctx, x.reload(ctx), func() error { return x.kernels.Run(ctx, x.stream, x.trees[kind], x.kinds[kind], l) })
	if err != nil {
		return err
	}
	want := x.n + l.Updates.Len()
	if l.Kind == op.Delete {
		want = x.n - l.Updates.Len()
	}
	if err := x.has(ctx, want); err != nil {
		return err
	}
	x.compared(name, n, elapsed, x.write, x.row(), published4[name][kind])
	return nil
}

func runMVBTreeMixed(ctx context.Context, r *runner) (err error) {
	largest, err := r.keys(1<<14, 40_000_000, 2*orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	sizes := []int{largest}
	if r.Scale == Full && largest > 1_000_000 {
		sizes = []int{1_000_000, largest}
	}
	for _, n := range sizes {
		if err := mixedOf(ctx, r, n); err != nil {
			return fmt.Errorf("%d pairs: %w", n, err)
		}
	}
	return nil
}

// maxMixed is the maximum number of operations per launch.
const maxMixed = 5_000_000

func mixedOf(ctx context.Context, r *runner, n int) (err error) {
	x, err := newMixedTrial(ctx, r, n, min(maxMixed, max(4, n/4)), btree.Whole, btree.OutOfPlace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	r.result.Parameters["operations"] = x.ops
	for kind, m := range x.maps {
		x.use(m)
		for _, percent := range []int{5, 50, 90} {
			for _, pairs := range []int{8, 32} {
				if err := x.mixed(ctx, kind, fmt.Sprintf("insert_range_%d_%d", percent, pairs), x.load(op.PutNew, percent, pairs, n)); err != nil {
					return err
				}
			}
			if err := x.mixed(ctx, kind, fmt.Sprintf("delete_get_%d", percent), x.load(op.Delete, percent, 0, 0)); err != nil {
				return err
			}
		}
		for _, pairs := range []int{4, 128, 1024} {
			if pairs >= n || r.Scale == Quick {
				continue
			}
			if err := x.mixed(ctx, kind, fmt.Sprintf("insert_range_50_%d", pairs), x.load(op.PutNew, 50, pairs, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func plotMVBTreeMixed(res *Result) []Plot {
	ranges := Plot{Name: "awad-fig4.3", Title: "Insertions beside ranges", XLabel: "per cent insertions", YLabel: "operations per second"}
	lengths := Plot{Name: "awad-fig4.4", Title: "Insertions beside as many ranges", XLabel: "pairs of a range", YLabel: "operations per second", LogX: true}
	deletes := Plot{Name: "awad-fig4.5", Title: "Deletions beside lookups", XLabel: "per cent deletions", YLabel: "operations per second"}
	for _, row := range res.Rows {
		var percent, pairs int
		if _, err := fmt.Sscanf(row.Op, "insert_range_%d_%d", &percent, &pairs); err == nil {
			if pairs == 8 || pairs == 32 {
				ranges.point(fmt.Sprintf("%s, ranges of %d", row.Structure, pairs), float64(percent), row.OpsPerS)
			}
			if percent == 50 {
				lengths.point(row.Structure, float64(pairs), row.OpsPerS)
			}
		}
		if _, err := fmt.Sscanf(row.Op, "delete_get_%d", &percent); err == nil && strings.HasPrefix(row.Op, "delete") {
			deletes.point(row.Structure, float64(percent), row.OpsPerS)
		}
	}
	return nonEmpty(ranges, lengths, deletes)
}

// memoryLaunches is the number of launches that insert while the memory of a tree is recorded. Then
// as many launches delete keys and insert them again. At full scale these continue for steadyTime,
// with about steadyRows rows.
const (
	memoryLaunches = 8
	steadyTime     = 8 * time.Minute
	steadyRows     = 32
)

func runMVBTreeMemory(ctx context.Context, r *runner) (err error) {
	n, err := r.keysFrom(4*memoryLaunches, 1<<14, 45_000_000, 2*orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	x, err := newMixedTrial(ctx, r, n, n, btree.Whole, btree.InPlace, btree.OutOfPlace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	x.ops = max(4, n/memoryLaunches)
	r.result.Parameters["operations"] = x.ops
	var grown [3]memoryUse
	var steady memoryUse
	for kind, m := range x.maps {
		x.use(m)
		if err := x.reload(ctx)(); err != nil {
			return err
		}
		inserted := 0
		for range memoryLaunches {
			l := x.load(op.PutNew, 50, 16, n+inserted)
			if x.kinds[kind] == btree.InPlace {
				grown[kind], err = x.put(ctx, kind, l)
			} else {
				grown[kind], err = x.watched(ctx, kind, "insert_range_50_16", l)
			}
			if err != nil {
				return err
			}
			inserted += l.Updates.Len()
		}
		if err := x.has(ctx, n+inserted); err != nil {
			return err
		}
		if x.kinds[kind] == btree.InPlace {
			continue
		}
		if steady, err = x.steady(ctx, kind, n+inserted); err != nil {
			return err
		}
	}
	whole, inPlace, outOfPlace := grown[0], grown[1], grown[2]
	r.result.Parameters["overhead"] = outOfPlace.nodes/whole.nodes - 1
	r.result.Parameters["overhead_bytes"] = outOfPlace.bytes/whole.bytes - 1
	r.result.Parameters["overhead_in_place"] = outOfPlace.bytes/inPlace.bytes - 1
	r.result.Parameters["steady_growth"] = steady.bytes/outOfPlace.bytes - 1
	return nil
}

// put inserts the launch's updates as a batch, without queries, and adds a row.
func (x *mixedTrial) put(ctx context.Context, kind int, l mixedtree.Load) (t memoryUse, err error) {
	x.begin("insert")
	elapsed, err := x.watch.Time(ctx, func() error { return x.m.put(x.stream, l.Updates, l.Vals) })
	if err != nil {
		return t, err
	}
	return x.held(ctx, kind, "insert", l.Updates.Len(), elapsed)
}

// steady repeatedly deletes the last keys of a tree of n pairs and inserts them again, while ranges
// are read.
func (x *mixedTrial) steady(ctx context.Context, kind, n int) (last memoryUse, err error) {
	l := x.load(op.PutNew, 50, 16, n-max(1, x.ops/2))
	removed := l
	removed.Kind, removed.Vals = op.Delete, device.Slice[uint32]{}
	launches, interval := memoryLaunches/2, time.Duration(0)
	if x.Scale == Full && x.N == 0 && x.kinds[kind] == btree.OutOfPlace {
		launches, interval = 0, steadyTime/steadyRows
	}
	begin, next := time.Now(), time.Now()
	for i := 0; i < launches || launches == 0 && time.Since(begin) < steadyTime; i++ {
		rows := len(x.result.Rows)
		if _, err := x.watched(ctx, kind, "delete_range_50_16", removed); err != nil {
			return last, err
		}
		if last, err = x.watched(ctx, kind, "insert_range_50_16", l); err != nil {
			return last, err
		}
		if time.Now().Before(next) {
			x.result.Rows = x.result.Rows[:rows] // keep only some rows
			continue
		}
		next = next.Add(interval)
	}
	return last, x.has(ctx, n)
}

// memoryUse is the memory of a tree. nodes is the number of nodes that are in use or wait for the
// end of epochs. bytes is the size of all nodes and their side data.
type memoryUse struct{ nodes, bytes float64 }

// watched times a launch, and reports and returns the memory after it.
func (x *mixedTrial) watched(ctx context.Context, kind int, name string, l mixedtree.Load) (t memoryUse, err error) {
	x.begin(name)
	elapsed, err := x.watch.Time(ctx, func() error { return x.kernels.Run(ctx, x.stream, x.trees[kind], x.kinds[kind], l) })
	if err != nil {
		return t, err
	}
	return x.held(ctx, kind, name, l.Updates.Len()+l.Queries.Len(), elapsed)
}

// held adds a row of n operations that shows the memory after them.
func (x *mixedTrial) held(ctx context.Context, kind int, name string, n int, elapsed time.Duration) (t memoryUse, err error) {
	s, err := x.trees[kind].Stats(ctx)
	if err != nil {
		return t, err
	}
	sideBytes := 0
	if x.kinds[kind] != btree.Whole {
		sideBytes = pastBytes
	}
	t = memoryUse{nodes: float64(s.Nodes + s.Dead + s.Kept), bytes: float64((s.Nodes + s.Dead + s.Kept + s.Spare) * (nodeBytes + sideBytes))}
	row := x.row()
	row.Samples, row.TableBytes = []float64{float64(s.Nodes), float64(s.Kept), float64(s.Spare), float64(s.Copied)}, int(t.bytes)
	row.BytesPerEntry = figure(t.bytes / float64(max(1, s.Len)))
	x.report(name, n, elapsed, x.write, row)
	return t, nil
}

// pastBytes is the size of a node's side data: a time, a list, and a link of epochs.
const pastBytes = 20
