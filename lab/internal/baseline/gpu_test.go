package baseline

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gpuPeers are so small that all keys collide: in one chain, or in three buckets.
var gpuPeers = []*peer{
	{name: "clevel", words: 1 << 11, keySize: 8, valueSize: 8, batches: 3, ops: 14, keys: 12, build: buildClevel},
	{name: "clevel", words: 1 << 11, keySize: 20, valueSize: 12, batches: 3, ops: 12, keys: 10, build: buildClevel},
	{name: "slab", words: 1 << 12, keySize: 8, valueSize: 8, threads: 16, batches: 3, ops: 12, keys: 12, build: buildSlab},
	{name: "slab", words: 1 << 12, keySize: 20, valueSize: 28, threads: 16, batches: 3, ops: 10, keys: 11, build: buildSlab},
}

// gpuTrial is a trial of kernels: batches on a simulated GPU. A crash may lose some of their
// stores.
type gpuTrial struct {
	*trial
	k   *pmtest.Kernels
	g   *gpuIndex
	len int // number of keys, as the GPU counts
}

// newGPUTrial makes a trial, with crashes if requested.
func newGPUTrial(t testing.TB, p *peer, seed uint64, o sim.Options, crashes bool) *gpuTrial {
	memory := make([]uint64, p.words+device.MapAlign/pm.Word)
	for uintptr(unsafe.Pointer(&memory[0]))%device.MapAlign != 0 {
		memory = memory[1:]
	}
	mapped := device.Bytes(memory[:p.words])
	mem := pm.New(mapped, nil)
	f := &gpuTrial{trial: &trial{peer: p, seed: seed, rng: rand.New(rand.NewPCG(seed, 12)), possible: make([][][]byte, p.keys)}, k: pmtest.NewKernels(mapped)}
	for i := range f.possible {
		f.possible[i] = [][]byte{nil}
	}
	table, err := p.build(mem, p, seed)
	must(t, err)
	f.k.SyncFromHost()
	o.Arch, o.Scheduler, o.Seed = 90, sim.Random, seed
	if crashes {
		o.Domain = f.k
	}
	dev, err := sim.Open(&o)
	must(t, err)
	f.g, err = newGPUIndex(t.Context(), dev, table.(gpuTable), mem, Options{KeySize: p.keySize, ValueSize: p.valueSize, Seed: seed})
	must(t, err)
	f.k.Base = f.g.index.pool
	return f
}

func (f *gpuTrial) close(t testing.TB) { must(t, f.g.close()); must(t, f.g.Dev.Close()) }

// look opens the image of a crash on the host.
func (f *gpuTrial) look() {
	if f.failed != "" {
		return
	}
	f.images++
	table, err := f.build(f.k.Memory(), f.peer, f.seed)
	if err != nil {
		f.fail("%v", err)
		return
	}
	f.compare(table)
}

// run runs batches with several operations on a key, in an unspecified order. A key may then have
// any of the values. The results of lookups after a batch count as acknowledged.
func (f *gpuTrial) run(t testing.TB, crashes int) {
	next := 0
	if crashes > 0 {
		f.k.Step = func() error {
			if next--; next < 0 && f.failed == "" {
				next = f.rng.IntN(8)
				f.k.Crash(f.rng, crashes, f.look)
			}
			return nil
		}
	}
	for range f.batches {
		f.batch(t)
		f.read(t)
		if crashes > 0 {
			f.k.Crash(f.rng, crashes, f.look) // the whole batch is durable
		}
		f.k.SyncFromHost()
	}
	f.close(t)
}

// batch runs a mixed batch.
func (f *gpuTrial) batch(t testing.TB) {
	n := f.ops
	kinds, keys, vals, out, ok := make([]op.Kind, n), []byte{}, make([]byte, n*f.valueSize), make([]byte, n*f.valueSize), make([]bool, n)
	touched := make([]int, n)
	for i := range n {
		touched[i] = f.rng.IntN(f.keys)
		kinds[i] = [...]op.Kind{op.Put, op.Put, op.Put, op.Delete, op.Get}[f.rng.IntN(5)]
		keys = append(keys, f.item(touched[i]).key...)
		value := f.row(vals, i)
		for j := range value {
			value[j] = byte(f.rng.Uint32())
		}
		switch possible := &f.possible[touched[i]]; kinds[i] {
		case op.Put:
			*possible = append(*possible, bytes.Clone(value))
		case op.Delete:
			*possible = append(*possible, nil)
		}
	}
	delta, err := f.g.run(t.Context(), &batch.Batch{N: n, Columns: batch.Columns{
		batch.Kinds: batch.Input(kinds), batch.Keys: batch.Input(keys).WithWidth(f.keySize), batch.Vals: batch.Input(vals).WithWidth(f.valueSize),
		batch.Out: batch.Output(out).WithWidth(f.valueSize), batch.OK: batch.Output(ok),
	}})
	must(t, err)
	f.len += delta
	for i, kind := range kinds {
		if kind == op.Get && !f.isPossible(touched[i], ok[i], f.row(out, i)) {
			f.fail("key %d: found %v, %x; it may be %x", touched[i], ok[i], f.row(out, i), f.possible[touched[i]])
		}
	}
}

func (f *gpuTrial) row(of []byte, i int) []byte { return of[i*f.valueSize : (i+1)*f.valueSize] }

func (f *gpuTrial) isPossible(i int, found bool, value []byte) bool {
	return slices.ContainsFunc(f.possible[i], func(is []byte) bool { return (is != nil) == found && (!found || bytes.Equal(is, value)) })
}

// read looks up and counts all keys, and fixes their values to the results.
func (f *gpuTrial) read(t testing.TB) {
	var keys []byte
	vals, ok := make([]byte, f.keys*f.valueSize), make([]bool, f.keys)
	for i := range f.keys {
		keys = append(keys, f.item(i).key...)
	}
	hits, err := f.g.run(context.Background(), &batch.Batch{N: f.keys, Kind: op.Get, Columns: batch.Columns{
		batch.Keys: batch.Input(keys).WithWidth(f.keySize), batch.Vals: batch.Output(vals).WithWidth(f.valueSize), batch.OK: batch.Output(ok),
	}})
	must(t, err)
	if hits != f.len {
		f.fail("%d keys are found, %d counted", hits, f.len)
	}
	for i := range f.keys {
		if !f.isPossible(i, ok[i], f.row(vals, i)) {
			f.fail("key %d: found %v, %x; it may be %x", i, ok[i], f.row(vals, i), f.possible[i])
		}
		if f.possible[i] = [][]byte{nil}; ok[i] {
			f.possible[i][0] = bytes.Clone(f.row(vals, i))
		}
	}
}

// exploreGPU runs programs until about the given number of states have been checked as images of
// crashes.
func exploreGPU(t testing.TB, of []*peer, states int, rewrite func(file, ptx string) string) (images int, failed string) {
	for seed := uint64(0); images < states && failed == ""; seed++ {
		f := newGPUTrial(t, of[seed%uint64(len(of))], seed, sim.Options{Rewrite: rewrite}, true)
		f.run(t, 24)
		images, failed = images+f.images, f.failed
	}
	return images, failed
}

// Operations on the same keys meet in a launch, in weak memory. No accesses race, no key is present
// twice or miscounted, and concurrent lookups find complete values.
func TestKernelsMeet(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	if failed := meet(t, gpuPeers, 160, nil); failed != "" {
		t.Fatal(failed)
	}
}

// meet runs some programs in weak memory, until one fails.
func meet(t testing.TB, of []*peer, programs uint64, rewrite func(file, ptx string) string) (failed string) {
	for seed := uint64(0); seed < programs && failed == ""; seed++ {
		f := newGPUTrial(t, of[seed%uint64(len(of))], seed, sim.Options{Races: rewrite == nil, Rewrite: rewrite}, false)
		if f.run(t, 0); f.failed != "" {
			failed = fmt.Sprintf("seed %d: %s", seed, f.failed)
		}
	}
	return failed
}

// Each mutant of kernels with weakened accesses is detected.
func TestKernelMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range []struct {
		name, old, to string
		of            []*peer
	}{
		{"neither of two insertions sees the other", "fence.sc.sys", "fence.acq_rel.sys", gpuPeers[:2]},
		{"a record is read before it is there", "fence.acq_rel.gpu;", "", gpuPeers[:2]},
		{"a lock is taken without an acquire", "atom.acquire.gpu", "atom.relaxed.gpu", gpuPeers[2:]},
	} {
		t.Run(m.name, func(t *testing.T) {
			failed := meet(t, m.of, 3_000, func(_, ptx string) string { return strings.ReplaceAll(ptx, m.old, m.to) })
			if failed == "" {
				t.Fatal("not found")
			}
			t.Logf("%.150s", failed)
		})
	}
}

// The host recovers an index from any state in which a crash of kernels may leave the pool. No
// acknowledged operation is lost, and others are applied completely or not at all.
func TestCrashesOfKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, of := range [][]*peer{gpuPeers[:2], gpuPeers[2:]} {
		images, failed := exploreGPU(t, of, *crashStates/4, nil)
		if failed != "" {
			t.Fatal(failed)
		}
		t.Logf("%s: %d images of crashes", of[0].name, images)
	}
}

// Each mutant of kernels without a fence is detected.
func TestKernelCrashMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const (
		anyFence = `fence\.[a-z_]*\.sys;\n`

		fence  = `fence\.acq_rel\.sys;\n`
		store  = `(?:(?:add|mov|cvt)[^\n]*\n)*st\.relaxed\.sys[^\n]*\n` // of the length of the log
		branch = `@%p\d+ bra[^\n]*\n`                                   // past it, if it is absent
	)
	for _, m := range []struct {
		name, where string
		number      int // of the place; -1: all
		of          []*peer
	}{
		{"the log counts before it is there", fence + "(" + store + ")", -1, gpuPeers[2:]},
		{"a change before the log counts", "(" + fence + store + ")" + fence, -1, gpuPeers[2:]},
		{"the log is forgotten before the change is there", fence + "(" + branch + ")", -1, gpuPeers[2:]},
		{"the log may come back", "(" + fence + branch + store + ")" + fence, -1, gpuPeers[2:]},
		{"no fence behind a slot that is emptied", anyFence, 0, gpuPeers[:2]},
		{"no fence behind the record", anyFence, 1, gpuPeers[:2]},
		{"no fence behind a slot that names another record", anyFence, 2, gpuPeers[:2]},
		{"no fence behind a slot that is taken", anyFence, 3, gpuPeers[:2]},
	} {
		t.Run(m.name, func(t *testing.T) {
			where, found := regexp.MustCompile(m.where), false
			images, failed := exploreGPU(t, m.of, 1_000_000, func(_, ptx string) string {
				n := -1
				return where.ReplaceAllStringFunc(ptx, func(s string) string {
					if n++; !strings.Contains(ptx, ".entry "+m.of[0].name+"_run(") || m.number >= 0 && n != m.number {
						return s
					}
					found = true
					return where.ReplaceAllString(s, "$1")
				})
			})
			if failed == "" || !found {
				t.Fatalf("not found in %d images; in the PTX: %v", images, found)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
