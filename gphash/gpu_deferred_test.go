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

// fuse is a domain that loses the GPU at a given store of its kernels to the pool.
type fuse struct {
	pool      device.Buffer
	remaining atomic.Int64
}

var errFuse = errors.New("the fuse has blown")

func (f *fuse) Holds(at device.Ptr) bool {
	return at >= f.pool.Ptr && at < f.pool.Ptr+device.Ptr(f.pool.Size)
}
func (f *fuse) Store(sim.Thread, device.Ptr, []byte) error {
	if f.remaining.Add(-1) == 0 {
		return errFuse
	}
	return nil
}
func (f *fuse) Release(sim.Thread, sim.Scope, sim.Before) error { return nil }
func (f *fuse) Fence(sim.Thread, sim.Scope, sim.Before) error   { return nil }

// executed records the instructions that access memory, by kernel and line.
type executed map[string]map[int]bool

// trapAfter returns a rewrite that inserts a trap after the n-th memory access of a kernel that
// matches access and is in set. The trap fires at the first execution.
func trapAfter(kernel, access string, set executed, n int) func(file, ptx string) string {
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
			return !set["gphash_"+kernel][1+strings.Count(ptx[:lo+at[0]], "\n")]
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

// lossTrial is an index on a GPU that will be lost, with its expected contents.
type lossTrial struct {
	*testing.T
	rng      *rand.Rand
	path     string
	o        Options
	fuse     fuse
	x        *Index
	keys     int
	state    map[string][][]byte // possible values of each key; nil if absent
	lostBy   string              // kernel that lost the GPU
	lastDone bool                // the batch that met the loss was done
}

// lossShapes are so small that keys move and the index grows often.
var lossShapes = []Options{
	{KeySize: 8, ValueSize: 8, Slots: 2},
	{KeySize: 20, ValueSize: 24, Slots: 2},
	{KeySize: 8, ValueSize: 130, Slots: 4},
}

func newLossTrial(t *testing.T, seed uint64) *lossTrial {
	tr := &lossTrial{}
	tr.open(t, lossShapes[seed%3], seed, sim.Options{Domain: &tr.fuse})
	return tr
}

// open creates the index on a GPU.
func (tr *lossTrial) open(t *testing.T, o Options, seed uint64, gpu sim.Options) {
	tr.T, tr.rng, tr.path, tr.o, tr.keys, tr.state = t, rand.New(rand.NewPCG(seed, 17)), filepath.Join(memoryDir(t), "pool"), o, 200, map[string][][]byte{}
	tr.o.Size, tr.o.Capacity, tr.o.Seed, tr.o.Mirror, tr.o.Resize = smallPool, 1, [2]uint64{seed + 1, 1}, tr.rng.IntN(2) == 0, Resize(tr.rng.IntN(2))
	gpu.Arch, gpu.Scheduler, gpu.Seed = 80, sim.Random, seed
	dev, err := sim.Open(&gpu)
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	tr.x, err = Create(tr.path, dev, tr.o)
	must(t, err)
	tr.fuse.pool = tr.x.engine.accel.(*gpuEngine).k.pool
	tr.fuse.remaining.Store(int64(1 + tr.rng.IntN(3000)))
}

// lossOptions returns the options for a seed's program. atomic is the size of atomic batches, or 0.
func lossOptions(seed uint64, atomic int) Options {
	o := lossShapes[seed%3]
	if o.AtomicBatch = atomic; atomic > 0 && seed%2 == 1 {
		o.AtomicTail = 100
	}
	return o
}

// executedSets holds the accesses that programs execute without a loss: one set for each seed
// modulo the number of options (see [lossOptions]).
type executedSets struct {
	sync.Mutex
	places [6]executed
}

// executedBy returns the set for a seed's options. The first call for these options runs a program.
func (run *executedSets) executedBy(t *testing.T, seed uint64, atomic int) executed {
	run.Lock()
	defer run.Unlock()
	seed %= uint64(len(run.places))
	if set := run.places[seed]; set != nil {
		return set
	}
	set, tr := executed{}, &lossTrial{}
	tr.open(t, lossOptions(seed, atomic), seed, sim.Options{Requests: func(r sim.Request) {
		if set[r.Kernel] == nil {
			set[r.Kernel] = map[int]bool{}
		}
		set[r.Kernel][r.Line] = true
	}})
	if tr.runUntilLost(lossBatches) {
		t.Error("lost without a reason")
	}
	must(t, tr.x.Close())
	run.places[seed] = set
	return set
}

// lossBatches is the maximum number of batches before a program must have lost its GPU.
const lossBatches = 25

func (tr *lossTrial) key(i int) []byte { return denseKey(tr.o.KeySize, i) }

// runBatch runs operations of all kinds and records the possible results. If a loss interrupts a
// batch, any number of the first operations on a key may have been done.
func (tr *lossTrial) runBatch(choices ...op.Kind) error {
	n := 1 + tr.rng.IntN(40)
	size, vsize := uint64(tr.o.KeySize), uint64(tr.o.ValueSize)
	kinds, keys, values := make([]weft.OpKind, n), []byte(nil), make([]byte, uint64(n)*vsize)
	allowed := map[string][][]byte{}
	for i := range n {
		kinds[i] = weft.OpKind(choices[tr.rng.IntN(len(choices))])
		keys = append(keys, tr.key(tr.rng.IntN(tr.keys))...)
		key, value := string(row(keys, i, size)), row(values, i, vsize)
		for j := range value {
			value[j] = byte(tr.rng.Uint32())
		}
		if allowed[key] == nil {
			allowed[key] = append([][]byte{nil}, tr.state[key]...)[len(tr.state[key]):]
		}
		next := allowed[key][len(allowed[key])-1]
		switch {
		case kinds[i] == weft.OpPut, kinds[i] == weft.OpPutNew && next == nil:
			next = bytes.Clone(value)
		case kinds[i] == weft.OpDelete:
			next = nil
		}
		allowed[key] = append(allowed[key], next)
	}
	err := tr.x.Apply(tr.Context(), kinds, keys, values, nil)
	for key, values := range allowed {
		switch tr.state[key] = values; {
		case err == nil:
			tr.state[key] = values[len(values)-1:]
		case tr.o.AtomicBatch > 0:
			tr.state[key] = [][]byte{values[0], values[len(values)-1]}
		}
	}
	return err
}

// checkKeys looks up all keys. Each must have a possible value, which becomes its only one.
func (tr *lossTrial) checkKeys() error {
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
	// numbers of keys as before and as after the batch that met the loss
	before, after := 0, 0
	for i := range tr.keys {
		var value []byte
		if found[i] {
			value = bytes.Clone(row(values, i, uint64(tr.o.ValueSize)))
		}
		key := string(tr.key(i))
		allowed := tr.state[key]
		if allowed == nil {
			allowed = [][]byte{nil}
		}
		same := func(v []byte) bool { return (v == nil) == (value == nil) && bytes.Equal(v, value) }
		switch {
		case !slices.ContainsFunc(allowed, same):
			tr.Fatalf("key %d is %x, it may be %x", i, value, allowed)
		case !same(allowed[len(allowed)-1]):
			before++
		case !same(allowed[0]):
			after++
		}
		tr.state[key] = [][]byte{value}
	}
	if tr.o.AtomicBatch > 0 && before > 0 && after > 0 {
		tr.Fatalf("of a batch %d keys are there and %d are not", after, before)
	}
	if tr.lostBy != "" && before+after > 0 {
		tr.lastDone = after > 0
	}
	if tr.x.Len() != hits {
		tr.Fatalf("%d keys, Len says %d", hits, tr.x.Len())
	}
	return nil
}

// runUntilLost runs batches and lookups until the GPU is lost. It returns false if the given number
// of batches does not meet the loss.
func (tr *lossTrial) runUntilLost(batches int) bool {
	for range batches {
		err := tr.runBatch(op.Put, op.Put, op.PutNew, op.Delete, op.Get)
		change := err != nil
		if err == nil && tr.rng.IntN(3) == 0 {
			err = tr.checkKeys()
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, device.ErrLost) || errors.Is(err, weft.ErrFull) {
			tr.Fatal(err)
		}
		var fault *sim.Fault
		if tr.lostBy = "fuse"; errors.As(err, &fault) {
			tr.lostBy = fault.Kernel
		}
		deadline := time.Now().Add(time.Minute)
		// a lookup that meets the loss starts the failover
		for err := tr.checkKeys(); err != nil; err = tr.checkKeys() {
			if !errors.Is(err, device.ErrLost) || change || time.Now().After(deadline) {
				tr.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	return false
}

// checkReopened runs all operations on the pool, closes it and opens it again.
func (tr *lossTrial) checkReopened() {
	tr.Helper()
	must(tr, tr.x.Check(tr.Context()))
	before, err := tr.x.Stats(tr.Context())
	must(tr, err)
	tr.keys *= 4
	for range 40 {
		must(tr, tr.runBatch(op.Put, op.Put, op.Put, op.PutNew, op.Delete, op.Get))
	}
	must(tr, tr.checkKeys())
	must(tr, tr.x.Compact(tr.Context()))
	must(tr, tr.x.Check(tr.Context()))
	if after, err := tr.x.Stats(tr.Context()); err != nil || after.Slots <= before.Slots {
		tr.Errorf("%+v, before %+v, %v: it has not grown", after, before, err)
	}
	nKeys := 0
	for k, v := range tr.x.All(tr.Context()) {
		if !bytes.Equal(tr.state[string(k)][0], v) {
			tr.Fatalf("key %x has %x, want %x", k, v, tr.state[string(k)][0])
		}
		nKeys++
	}
	if nKeys != tr.x.Len() {
		tr.Errorf("%d keys seen of %d", nKeys, tr.x.Len())
	}
	// Close does not free the memory of the GPU
	if err := tr.x.Close(); !errors.Is(err, device.ErrLost) {
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
		must(tr, tr.checkKeys())
		must(tr, tr.x.Check(tr.Context()))
		must(tr, tr.x.Close())
	}
	must(tr, another.Close())
}

// lossPrograms is a factor for the number of programs.
var lossPrograms = flag.Int("loss-programs", 1, "so many times the usual number of programs in which tests lose GPUs")

// lossSeed describes where GPUs are lost.
type lossSeed struct {
	kernel, access string // empty for a store of any kernel
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

// A GPU is lost at any point. All acknowledged operations are done, each operation of the
// interrupted batch is done or not, and the process continues to use the pool.
func TestGPULost(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	var run executedSets
	for n, l := range lossSeeds {
		t.Run("in "+l.kernel, func(t *testing.T) {
			t.Parallel()
			l.run(t, uint64(n), &run, 0)
		})
	}
}

// With atomic batches, the interrupted batch is done as a whole or not at all.
func TestAtomicGPULost(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	const batch = 40
	var run executedSets
	var nUndone, nDone atomic.Int64
	t.Run("each", func(t *testing.T) {
		for n, l := range atomicLossSeeds {
			t.Run("in "+l.kernel, func(t *testing.T) {
				t.Parallel()
				undone, done := l.run(t, uint64(n), &run, batch)
				nUndone.Add(int64(undone))
				nDone.Add(int64(done))
			})
		}
	})
	if nUndone.Load() == 0 || nDone.Load() == 0 {
		t.Errorf("of batches that have met a loss %d were gone, and %d there", nUndone.Load(), nDone.Load())
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

// run loses GPUs. It returns the number of programs in which the last batch was undone, and in
// which it was done. Kernels start with different seeds, so that few programs cover all options.
func (l lossSeed) run(t *testing.T, first uint64, run *executedSets, batch int) (nUndone, nDone int) {
	for i := range uint64(l.seeds * *lossPrograms) {
		seed := first + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tr := &lossTrial{}
			gpu := sim.Options{Domain: &tr.fuse}
			if l.kernel != "" {
				gpu = sim.Options{Rewrite: trapAfter(l.kernel, l.access, run.executedBy(t, seed, batch), rand.New(rand.NewPCG(seed, 3)).IntN(1<<16))}
			}
			tr.open(t, lossOptions(seed, batch), seed, gpu)
			if !tr.runUntilLost(lossBatches) {
				must(t, tr.x.Close())
				return
			}
			if l.kernel != "" && tr.lostBy != "gphash_"+l.kernel {
				t.Errorf("lost by %s", tr.lostBy)
			}
			if nUndone++; tr.lastDone {
				nUndone, nDone = nUndone-1, nDone+1
			}
			tr.checkReopened()
		})
	}
	if nUndone+nDone == 0 {
		t.Error("no GPU was lost")
	}
	t.Logf("lost in %d of %d programs", nUndone+nDone, l.seeds**lossPrograms)
	return nUndone, nDone
}

// Lookups run alongside a change that loses the GPU, and an iteration continues after the loss.
// Each lookup reads values acknowledged before it or in flight, or returns that the device is lost.
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
		tr := newLossTrial(t, 3*seed) // keys and values of 8 bytes
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
		tr.fuse.remaining.Store(int64(1 + tr.rng.IntN(900)))
		var begun, acked atomic.Int64
		begun.Store(1)
		acked.Store(1)
		var readers sync.WaitGroup
		var read atomic.Int64 // number of reads after the loss
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
		for page, err := range tr.x.Pages(t.Context()) { // the iteration continues after the loss
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

// After batches on streams of a lost GPU, Sync returns the error once, and every later call with
// these streams returns the error.
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
			batch.Keys: batch.InputOn(keys).WithWidth(8), batch.Vals: batch.InputOn(values).WithWidth(8),
		}})
	}
	tr.fuse.remaining.Store(5)
	must(t, put())
	if err := tr.x.core.Sync(t.Context()); !errors.Is(err, device.ErrLost) {
		t.Errorf("Sync: %v", err)
	}
	must(t, tr.x.core.Sync(t.Context()))
	for name, err := range map[string]error{"stream": s.Sync(t.Context()), "Put": put(),
		"Get": tr.x.core.GetOn(s, "Get", nil, &batch.Batch{N: 3, Columns: batch.Columns{batch.Keys: batch.InputOn(keys).WithWidth(8)}})} {
		if !errors.Is(err, device.ErrLost) {
			t.Errorf("%s: %v", name, err)
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
