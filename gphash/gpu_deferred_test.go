package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
)

// fuse is a domain in which a GPU is lost at some store of its kernels to the pool.
type fuse struct {
	pool device.Buffer
	left atomic.Int64
}

var errFuse = errors.New("the fuse has blown")

func (f *fuse) Holds(at device.Ptr) bool {
	return at >= f.pool.Ptr && at < f.pool.Ptr+device.Ptr(f.pool.Size)
}
func (f *fuse) Store(sim.Thread, device.Ptr, []byte) error {
	if f.left.Add(-1) == 0 {
		return errFuse
	}
	return nil
}
func (f *fuse) Release(sim.Thread, sim.Scope, sim.Before) error { return nil }
func (f *fuse) Fence(sim.Thread, sim.Scope, sim.Before) error   { return nil }

// places are instructions that access memory, by the lines of their kernels.
type places map[string]map[int]bool

// trapBehind returns a rewrite that inserts a trap after the n-th matching memory access of a
// kernel. It only counts the instructions in run, and the trap fires at its first execution.
func trapBehind(kernel, access string, run places, n int) func(file, ptx string) string {
	accesses := regexp.MustCompile(`(?m)^[ \t]*(@!?%p\d+\s+)?(` + access + `)[^;]*;`)
	return func(_, ptx string) string {
		lo := strings.Index(ptx, ".entry gphash_"+kernel+"(")
		if lo < 0 {
			return ptx
		}
		hi := len(ptx)
		if next := strings.Index(ptx[lo+1:], ".entry"); next >= 0 {
			hi = lo + 1 + next
		}
		all := slices.DeleteFunc(accesses.FindAllStringSubmatchIndex(ptx[lo:hi], -1), func(at []int) bool {
			return !run["gphash_"+kernel][1+strings.Count(ptx[:lo+at[0]], "\n")]
		})
		if len(all) == 0 {
			return ptx
		}
		at := all[n%len(all)]
		guard := ""
		if at[2] >= 0 {
			guard = ptx[lo+at[2] : lo+at[3]]
		}
		return ptx[:lo+at[1]] + "\n" + guard + "trap;" + ptx[lo+at[1]:]
	}
}

// lossTrial is an index on a GPU that is lost, and its expected contents.
type lossTrial struct {
	*testing.T
	rng   *rand.Rand
	path  string
	o     Options
	fuse  fuse
	x     *Index
	keys  int
	state map[string][][]byte // the values that a key may have; nil: absent
	lost  string              // kernel that lost the GPU
	there bool                // the batch that met the loss is done
}

// lossShapes are small enough for keys to be moved for each other, and to grow often.
var lossShapes = []Options{
	{KeySize: 8, ValueSize: 8, Slots: 2},
	{KeySize: 20, ValueSize: 24, Slots: 2},
	{KeySize: 8, ValueSize: 130, Slots: 4},
}

func newLossTrial(t *testing.T, seed uint64) *lossTrial {
	tr := &lossTrial{}
	tr.begin(t, lossShapes[seed%3], seed, sim.Options{Domain: &tr.fuse})
	return tr
}

// begin makes the index on a GPU with additional options.
func (tr *lossTrial) begin(t *testing.T, o Options, seed uint64, gpu sim.Options) {
	tr.T, tr.rng, tr.path, tr.o, tr.keys, tr.state = t, rand.New(rand.NewPCG(seed, 17)), filepath.Join(memoryDir(t), "pool"), o, 200, map[string][][]byte{}
	tr.o.Size, tr.o.Capacity, tr.o.Seed, tr.o.Mirror, tr.o.Resize = smallPool, 1, [2]uint64{seed + 1, 1}, tr.rng.IntN(2) == 0, Resize(tr.rng.IntN(2))
	gpu.Arch, gpu.Scheduler, gpu.Seed = 80, sim.Random, seed
	dev, err := sim.Open(&gpu)
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	tr.x, err = Create(tr.path, dev, tr.o)
	must(t, err)
	tr.fuse.pool = tr.x.engine.far.(*gpuEngine).k.pool
	tr.fuse.left.Store(int64(1 + tr.rng.IntN(3000)))
}

// lossOptions returns the options of a seed's program, with atomic batches of the given size if not
// 0.
func lossOptions(seed uint64, atomic int) Options {
	o := lossShapes[seed%3]
	if o.AtomicBatch = atomic; atomic > 0 && seed%2 == 1 {
		o.AtomicTail = 100
	}
	return o
}

// running are the places that programs execute without a loss, one set for each seed modulo the
// number of options (see [lossOptions]).
type running struct {
	sync.Mutex
	places [6]places
}

// of returns the places for a seed's options. The first call for these options runs a program.
func (run *running) of(t *testing.T, seed uint64, atomic int) places {
	run.Lock()
	defer run.Unlock()
	seed %= uint64(len(run.places))
	if of := run.places[seed]; of != nil {
		return of
	}
	of, tr := places{}, &lossTrial{}
	tr.begin(t, lossOptions(seed, atomic), seed, sim.Options{Requests: func(r sim.Request) {
		if of[r.Kernel] == nil {
			of[r.Kernel] = map[int]bool{}
		}
		of[r.Kernel][r.Line] = true
	}})
	if tr.until(lossBatches) {
		t.Error("lost without a reason")
	}
	must(t, tr.x.Close())
	run.places[seed] = of
	return of
}

// lossBatches is the max number of batches before a program must have lost its GPU.
const lossBatches = 25

func (tr *lossTrial) key(i int) []byte { return denseKey(tr.o.KeySize, i) }

// batch runs operations of all kinds, and records the possible results. A batch cut short by a loss
// may have done the operations on a key up to any of them.
func (tr *lossTrial) batch(of ...op.Kind) error {
	n := 1 + tr.rng.IntN(40)
	size, vsize := uint64(tr.o.KeySize), uint64(tr.o.ValueSize)
	kinds, keys, values := make([]weft.OpKind, n), []byte(nil), make([]byte, uint64(n)*vsize)
	may := map[string][][]byte{}
	for i := range n {
		kinds[i] = weft.OpKind(of[tr.rng.IntN(len(of))])
		keys = append(keys, tr.key(tr.rng.IntN(tr.keys))...)
		key, value := string(row(keys, i, size)), row(values, i, vsize)
		for j := range value {
			value[j] = byte(tr.rng.Uint32())
		}
		if may[key] == nil {
			may[key] = append([][]byte{nil}, tr.state[key]...)[len(tr.state[key]):]
		}
		is := may[key][len(may[key])-1]
		switch {
		case kinds[i] == weft.OpPut, kinds[i] == weft.OpPutNew && is == nil:
			is = bytes.Clone(value)
		case kinds[i] == weft.OpDelete:
			is = nil
		}
		may[key] = append(may[key], is)
	}
	err := tr.x.Apply(tr.Context(), kinds, keys, values, nil)
	for key, values := range may {
		switch tr.state[key] = values; {
		case err == nil:
			tr.state[key] = values[len(values)-1:]
		case tr.o.AtomicBatch > 0:
			tr.state[key] = [][]byte{values[0], values[len(values)-1]}
		}
	}
	return err
}

// look looks all keys up. Each must have a possible value, which becomes its only one.
func (tr *lossTrial) look() error {
	tr.Helper()
	var keys []byte
	for i := range tr.keys {
		keys = append(keys, tr.key(i)...)
	}
	values, found := make([]byte, tr.keys*tr.o.ValueSize), make([]bool, tr.keys)
	hits, err := tr.x.Get(tr.Context(), keys, values, found)
	if err != nil {
		return err
	}
	// keys as before and as after the batch that met the loss
	before, behind := 0, 0
	for i := range tr.keys {
		var is []byte
		if found[i] {
			is = bytes.Clone(row(values, i, uint64(tr.o.ValueSize)))
		}
		key := string(tr.key(i))
		may := tr.state[key]
		if may == nil {
			may = [][]byte{nil}
		}
		same := func(v []byte) bool { return (v == nil) == (is == nil) && bytes.Equal(v, is) }
		switch {
		case !slices.ContainsFunc(may, same):
			tr.Fatalf("key %d is %x, it may be %x", i, is, may)
		case !same(may[len(may)-1]):
			before++
		case !same(may[0]):
			behind++
		}
		tr.state[key] = [][]byte{is}
	}
	if tr.o.AtomicBatch > 0 && before > 0 && behind > 0 {
		tr.Fatalf("of a batch %d keys are there and %d are not", behind, before)
	}
	if tr.lost != "" && before+behind > 0 {
		tr.there = behind > 0
	}
	if tr.x.Len() != hits {
		tr.Fatalf("%d keys, Len says %d", hits, tr.x.Len())
	}
	return nil
}

// until runs batches and lookups until the GPU is lost. It returns false if none of that many
// batches meets the loss.
func (tr *lossTrial) until(batches int) bool {
	for range batches {
		err := tr.batch(op.Put, op.Put, op.PutNew, op.Delete, op.Get)
		change := err != nil
		if err == nil && tr.rng.IntN(3) == 0 {
			err = tr.look()
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, device.ErrLost) || errors.Is(err, weft.ErrFull) {
			tr.Fatal(err)
		}
		var fault *sim.Fault
		if tr.lost = "fuse"; errors.As(err, &fault) {
			tr.lost = fault.Kernel
		}
		deadline := time.Now().Add(time.Minute)
		// a lookup that meets the loss triggers a takeover
		for err := tr.look(); err != nil; err = tr.look() {
			if !errors.Is(err, device.ErrLost) || change || time.Now().After(deadline) {
				tr.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	return false
}

// goOn uses the pool in all ways, closes it and opens it again.
func (tr *lossTrial) goOn() {
	tr.Helper()
	must(tr, tr.x.Check(tr.Context()))
	before, err := tr.x.Stats(tr.Context())
	must(tr, err)
	tr.keys *= 4
	for range 40 {
		must(tr, tr.batch(op.Put, op.Put, op.Put, op.PutNew, op.Delete, op.Get))
	}
	must(tr, tr.look())
	must(tr, tr.x.Compact(tr.Context()))
	must(tr, tr.x.Check(tr.Context()))
	if after, err := tr.x.Stats(tr.Context()); err != nil || after.Slots <= before.Slots {
		tr.Errorf("%+v, before %+v, %v: it has not grown", after, before, err)
	}
	seen := 0
	for k, v := range tr.x.All(tr.Context()) {
		if !bytes.Equal(tr.state[string(k)][0], v) {
			tr.Fatalf("key %x has %x, want %x", k, v, tr.state[string(k)][0])
		}
		seen++
	}
	if seen != tr.x.Len() {
		tr.Errorf("%d keys seen of %d", seen, tr.x.Len())
	}
	if err := tr.x.Close(); !errors.Is(err, device.ErrLost) { // memory of the GPU is not freed
		tr.Errorf("closed: %v", err)
	}
	another, err := sim.Open(nil)
	must(tr, err)
	for _, dev := range []device.Device{openCPU(tr), another} {
		var report *Report
		tr.x, report, err = Open(tr.Context(), tr.path, dev, OpenOptions{Verify: true})
		must(tr, err)
		if report.Damaged+report.Unfinished+report.Moved > 0 {
			tr.Errorf("opened: %+v", report)
		}
		must(tr, tr.look())
		must(tr, tr.x.Check(tr.Context()))
		must(tr, tr.x.Close())
	}
	must(tr, another.Close())
}

// lossPrograms increases the number of programs.
var lossPrograms = flag.Int("loss-programs", 1, "so many times the usual number of programs in which tests lose GPUs")

// lossSeed is where GPUs are lost.
type lossSeed struct {
	kernel, access string // empty: at a store of any kernel
	seeds          int
}

var lossSeeds = []lossSeed{
	{"", "", 2},
	{"change", `st\.|atom\.|red\.`, 1},
	{"change_crowded", `st\.|atom\.|red\.`, 1},
	{"move_up", `st\.|atom\.|red\.`, 1},
	{"recycle", `st\.|atom\.|red\.`, 1},
	{"get", `ld\.`, 1},
}

// A GPU is lost in the middle of anything. Acknowledged operations are done, each operation of the
// interrupted batch is done or not, and the pool continues in the same process.
func TestGPULost(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	var run running
	for n, l := range lossSeeds {
		t.Run("in "+l.kernel, func(t *testing.T) {
			t.Parallel()
			l.run(t, uint64(n), &run, 0)
		})
	}
}

// The same with atomic batches: the interrupted one is done as a whole or not at all.
func TestAtomicGPULost(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	const batch = 40
	var run running
	var gone, there atomic.Int64
	t.Run("each", func(t *testing.T) {
		for n, l := range atomicLossSeeds {
			t.Run("in "+l.kernel, func(t *testing.T) {
				t.Parallel()
				more, whole := l.run(t, uint64(n), &run, batch)
				gone.Add(int64(more))
				there.Add(int64(whole))
			})
		}
	})
	if gone.Load() == 0 || there.Load() == 0 {
		t.Errorf("of batches that have met a loss %d were gone, and %d there", gone.Load(), there.Load())
	}
}

var atomicLossSeeds = []lossSeed{
	{"", "", 2},
	{"change", `st\.`, 1},
	{"follow", `st\.`, 2},
	{"log", `st\.|atom\.|red\.`, 1},
	{"settle", `st\.|atom\.|red\.`, 1},
	{"home", `st\.`, 1},
	{"undo", `st\.`, 1},
	{"tick", `st\.`, 1},
}

// run loses GPUs, and counts the programs with a last batch that was gone, or done. Kernels start
// with different seeds, so that few programs cover all options.
func (l lossSeed) run(t *testing.T, first uint64, run *running, batch int) (gone, there int) {
	for i := range uint64(l.seeds * *lossPrograms) {
		seed := first + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tr := &lossTrial{}
			gpu := sim.Options{Domain: &tr.fuse}
			if l.kernel != "" {
				gpu = sim.Options{Rewrite: trapBehind(l.kernel, l.access, run.of(t, seed, batch), rand.New(rand.NewPCG(seed, 3)).IntN(1<<16))}
			}
			tr.begin(t, lossOptions(seed, batch), seed, gpu)
			if !tr.until(lossBatches) {
				must(t, tr.x.Close())
				return
			}
			if l.kernel != "" && tr.lost != "gphash_"+l.kernel {
				t.Errorf("lost by %s", tr.lost)
			}
			if gone++; tr.there {
				gone, there = gone-1, there+1
			}
			tr.goOn()
		})
	}
	if gone+there == 0 {
		t.Error("no GPU was lost")
	}
	t.Logf("lost in %d of %d programs", gone+there, l.seeds**lossPrograms)
	return gone, there
}

// Lookups run alongside a change that loses the GPU, and an iteration continues after it. Each
// reads values acknowledged before it or in flight, or returns that the device is lost.
func TestGPULostBesideReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	seeds, rounds := uint64(3), 15
	if conformance.Raced {
		seeds = 2
	}
	for seed := range seeds {
		tr := newLossTrial(t, 3*seed) // 8 bytes and 8 bytes
		const n = 60
		var keys, values []byte
		for i := range n {
			keys = append(keys, tr.key(i)...)
		}
		put := func(round int) error {
			values = values[:0]
			for range n {
				values = binary.LittleEndian.AppendUint64(values, uint64(round))
			}
			_, err := tr.x.Put(t.Context(), keys, values)
			return err
		}
		must(t, put(1))
		tr.fuse.left.Store(int64(1 + tr.rng.IntN(900)))
		var begun, acked atomic.Int64
		begun.Store(1)
		acked.Store(1)
		var readers sync.WaitGroup
		var read atomic.Int64 // after the loss
		met, stop := make(chan struct{}), make(chan struct{})
		for range 2 {
			readers.Go(func() {
				values, found := make([]byte, n*8), make([]bool, n)
				for stopped := false; !stopped; {
					select {
					case <-stop:
						stopped = true
					default:
					}
					from := acked.Load()
					_, err := tr.x.Get(t.Context(), keys, values, found)
					to := begun.Load()
					if err != nil {
						if !errors.Is(err, device.ErrLost) {
							t.Errorf("lookup: %v", err)
						}
						continue
					}
					for i := range n {
						if v := int64(binary.LittleEndian.Uint64(values[8*i:])); !found[i] || v < from || v > to {
							t.Errorf("seed %d: key %d is %d, %v, want %d to %d", seed, i, v, found[i], from, to)
						}
					}
					select {
					case <-met:
						read.Add(1)
					default:
					}
				}
			})
		}
		for page, err := range tr.x.Pages(t.Context()) { // held over the loss
			if must(t, err); len(page.Keys) != n*8 {
				t.Errorf("a page of %d bytes", len(page.Keys))
			}
			lost := false
			for round := int64(2); round < int64(rounds) || !lost; round++ {
				begun.Store(round)
				switch err := put(int(round)); {
				case err == nil:
					acked.Store(round)
				case errors.Is(err, device.ErrLost):
					if !lost {
						close(met)
					}
					lost = true
				default:
					t.Fatal(err)
				}
			}
		}
		for read.Load() == 0 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		close(stop)
		readers.Wait()
		must(t, tr.x.Check(t.Context()))
		if err := tr.x.Close(); !errors.Is(err, device.ErrLost) {
			t.Errorf("closed: %v", err)
		}
	}
}

// After batches on streams of a lost GPU, Sync returns the error once, and streams return it.
func TestGPULostOnStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	tr := newLossTrial(t, 0)
	dev := tr.x.core.Device
	s, err := dev.NewStream()
	must(t, err)
	keys, err := device.Upload(s, bytes.Join([][]byte{tr.key(1), tr.key(2), tr.key(3)}, nil))
	must(t, err)
	values, err := device.Upload(s, make([]byte, 3*8))
	must(t, err)
	put := func() error {
		return tr.x.core.ChangeOn(s, "Put", &batch.Batch{N: 3, Kind: op.Put, Columns: batch.Columns{
			batch.Keys: batch.InOn(keys).Of(8), batch.Vals: batch.InOn(values).Of(8),
		}})
	}
	tr.fuse.left.Store(5)
	must(t, put())
	if err := tr.x.core.Sync(t.Context()); !errors.Is(err, device.ErrLost) {
		t.Errorf("Sync: %v", err)
	}
	must(t, tr.x.core.Sync(t.Context()))
	for what, err := range map[string]error{"stream": s.Sync(t.Context()), "Put": put(),
		"Get": tr.x.core.GetOn(s, "Get", nil, &batch.Batch{N: 3, Columns: batch.Columns{batch.Keys: batch.InOn(keys).Of(8)}})} {
		if !errors.Is(err, device.ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = tr.x.Put(t.Context(), tr.key(1), make([]byte, 8))
	must(t, err)
	if n, err := tr.x.Get(t.Context(), tr.key(1), make([]byte, 8), nil); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := tr.x.Close(); !errors.Is(err, device.ErrLost) {
		t.Errorf("closed: %v", err)
	}
}
