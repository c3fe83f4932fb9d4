package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/weftgo/weft"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
	"github.com/weftgo/weft/internal/pool"
)

// kernelTrial runs batches on a simulated GPU with stores that a crash may lose.
type kernelTrial struct {
	*trial
	k        *pmtest.Kernels
	host     *pmtest.Host
	dev      device.Device
	index    *Index
	maxSteps int  // maximum number of steps between two points at which crashes are checked
	putsOnly bool // the program also has batches of Puts only
}

// kernelShapes are so small that keys collide and must move.
var kernelShapes = []smallShape{
	{keySize: 8, valueSize: 8, slots: 2, hashes: 2, levels: 2, top: 1, batches: 4, ops: 14, keys: 24},
	{keySize: 20, valueSize: 24, slots: 2, hashes: 2, levels: 2, top: 1, batches: 3, ops: 12, keys: 20},
	{keySize: 8, valueSize: 130, slots: 4, hashes: 2, levels: 2, top: 0, batches: 3, ops: 12, keys: 24},
}

func newKernelTrial(t testing.TB, seed uint64, rewrite func(file, ptx string) string) *kernelTrial {
	return newKernelTrialOf(t, Options{}, seed, rewrite, nil)
}

func newKernelTrialOf(t testing.TB, o Options, seed uint64, rewrite func(file, ptx string) string, requests func(sim.Request)) *kernelTrial {
	return newKernelTrialIn(t, kernelShapes[seed%uint64(len(kernelShapes))], o, seed, rewrite, requests)
}

func newKernelTrialIn(t testing.TB, shape smallShape, o Options, seed uint64, rewrite func(file, ptx string) string, requests func(sim.Request)) *kernelTrial {
	tr := &kernelTrial{trial: newTrial(shape, seed), maxSteps: 8, putsOnly: seed%5 == 4}
	tr.maxImages = 24
	o.KeySize, o.ValueSize, o.Slots, o.Hashes, o.Levels = shape.keySize, shape.valueSize, shape.slots, shape.hashes, shape.levels
	o.Capacity, o.Hash, o.Seed = 1, SipHash, tr.seed
	p, _ := memoryPool(t, &o, tr.rng, func(mapped []byte) *pm.Memory {
		tr.k = pmtest.NewKernels(mapped)
		tr.host = &pmtest.Host{Kernels: tr.k}
		return pm.New(mapped, tr.host)
	})
	tr.k.SyncFromHost()
	tr.images = &tr.k.Images
	tr.reopenImage = func(resume bool) (*table, *Report) { return tr.reopen(tr.k.Memory(), resume) }
	dev, err := sim.Open(&sim.Options{Arch: 80, Scheduler: sim.Random, Seed: seed, Domain: tr.k, Rewrite: rewrite, Requests: requests})
	must(t, err)
	tr.dev = dev
	c, e, _, err := openTable(t.Context(), p, dev, OpenOptions{Mirror: seed%2 == 0, AtomicTail: o.AtomicTail}, core.Types{})
	must(t, err)
	tr.index = &Index{c, e}
	k := &e.accel.(*gpuEngine).k
	tr.k.Base, k.minWarps = k.pool.Ptr, int(seed/3%3)
	e.accel = syncedClear{e.accel, tr.k}
	tr.k.SyncFromHost()
	return tr
}

// syncedClear makes zeros that the device writes durable, since no domain observes these writes. In
// the real code the following commit does so.
type syncedClear struct {
	accelerator
	k *pmtest.Kernels
}

func (s syncedClear) clearWords(lo, hi uint64) error {
	defer s.k.SyncFromHost()
	return s.accelerator.clearWords(lo, hi)
}

// memoryPool creates a pool in mappable heap memory. Its free memory contains random words.
func memoryPool(t testing.TB, o *Options, rng *rand.Rand, of func(mapped []byte) *pm.Memory) (*pool.Pool, []byte) {
	const words = pool.DataStart/pm.Word + 64*growthUnit
	memory := make([]uint64, words+device.MapAlign/pm.Word)
	for uintptr(unsafe.Pointer(&memory[0]))%device.MapAlign != 0 {
		memory = memory[1:]
	}
	mapped := device.Bytes(memory[:words])
	o.Size = words * pm.Word
	first, err := o.plan(growthUnit)
	must(t, err)
	p, err := pool.Format(of(mapped), first)
	must(t, err)
	top := first.Levels[first.Top]
	used := top.Offset + top.Length
	if log := first.Areas[redoArea]; log.Length > 0 {
		used = log.Offset + headWords*pm.Word
	}
	for at := used / pm.Word; at < words; at++ {
		memory[at] = rng.Uint64()
	}
	return p, mapped
}

// run runs batches and checks crashes at a sample of the possible points.
func (tr *kernelTrial) run(t testing.TB) {
	tr.checkCrashes()
	tr.runBatches(t)
	tr.close(t)
}

func (tr *kernelTrial) checkCrashes() {
	next := 0
	tr.k.Step = func() error {
		if next--; next < 0 && tr.failed == "" {
			next = tr.rng.IntN(tr.maxSteps)
			tr.k.Crash(tr.rng, tr.maxImages, tr.checkImage)
		}
		return nil
	}
}

// close ends a program without checking more crashes.
func (tr *kernelTrial) close(t testing.TB) {
	tr.k.Step = nil
	must(t, tr.index.Close())
	must(t, tr.dev.Close())
}

// runBatches runs batches of operations of all kinds, several on a key.
func (tr *kernelTrial) runBatches(t testing.TB) {
	stream, err := tr.dev.NewStream()
	must(t, err)
	for range tr.shape.batches {
		// Submit up to several batches, and wait only for the last one.
		var submitted []*kernelBatch
		for range 1 + tr.rng.IntN(3) {
			submitted = append(submitted, tr.submit(t, stream))
		}
		must(t, tr.index.core.Sync(t.Context()))
		for _, b := range submitted {
			tr.finish(t, stream, b)
		}
		tr.k.SyncFromHost()
		for i, allowed := range tr.possible {
			tr.possible[i] = allowed[len(allowed)-1:]
		}
	}
	must(t, stream.Close())
}

// kernelBatch is a batch on the device, with its expected results.
type kernelBatch struct {
	keys, values device.Slice[byte]
	kinds        device.Slice[weft.OpKind]
	want         []byte
}

func (tr *kernelTrial) submit(t testing.TB, s *device.Stream) *kernelBatch {
	n, size, vsize := 1+tr.rng.IntN(tr.shape.ops), tr.shape.keySize, tr.shape.valueSize
	kinds, keys, values, want := make([]weft.OpKind, n), make([]byte, n*size), make([]byte, n*vsize), make([]byte, n*vsize)
	puts := tr.putsOnly && tr.rng.IntN(2) == 0
	for i := range n {
		at, value, read := tr.rng.IntN(len(tr.keys)), row(values, i, uint64(vsize)), row(want, i, uint64(vsize))
		kind := [...]op.Kind{op.Put, op.Put, op.PutNew, op.Delete, op.Get}[tr.rng.IntN(5)]
		if puts {
			kind = op.Put
		}
		kinds[i] = weft.OpKind(kind)
		copy(row(keys, i, uint64(size)), tr.keys[at])
		for j := range value {
			value[j] = byte(tr.rng.Uint32())
		}
		is := tr.possible[at][len(tr.possible[at])-1]
		next := is
		switch {
		case kind == op.Put, kind == op.PutNew && is == nil:
			next = bytes.Clone(value)
		case kind == op.Delete:
			next = nil
		default:
			copy(read, is)
		}
		tr.possible[at] = append(tr.possible[at], next)
	}
	b := &kernelBatch{want: want}
	var err error
	b.keys, err = device.Upload(s, keys)
	must(t, err)
	b.values, err = device.Upload(s, values)
	must(t, err)
	b.kinds, err = device.Upload(s, kinds)
	must(t, err)
	if puts {
		copy(want, values)
		must(t, tr.index.PutOn(s, b.keys, b.values))
		return b
	}
	must(t, tr.index.ApplyOn(s, b.kinds, b.keys, b.values, device.Slice[bool]{}))
	return b
}

func (tr *kernelTrial) finish(t testing.TB, s *device.Stream, b *kernelBatch) {
	got := make([]byte, len(b.want))
	must(t, s.CopyOut(t.Context(), got, b.values.Ptr()))
	if !bytes.Equal(got, b.want) {
		tr.fail("read %x, want %x", got, b.want)
	}
	must(t, errors.Join(b.keys.Free(), b.values.Free(), b.kinds.Free()))
}

// exploreKernels runs programs, beginning with the seed from, until about the given number of
// images has been checked.
func exploreKernels(t testing.TB, from uint64, states int, rewrite func(file, ptx string) string) (images int, failed string) {
	for seed := from; images < states; seed++ {
		tr := newKernelTrial(t, seed, rewrite)
		tr.run(t)
		images += tr.nImages
		if tr.failed != "" {
			return images, fmt.Sprintf("seed %d: %s", seed, tr.failed)
		}
	}
	return images, ""
}

// After a crash that loses stores of kernels, all acknowledged operations are done, and each
// operation of an interrupted batch is done or not.
func TestCrashesOfKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, failed := exploreKernels(t, 0, *crashStates/100, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	t.Logf("%d images of crashes", images)
}

// systemFence matches fences that order the stores a crash keeps.
var systemFence = regexp.MustCompile(`fence\.acq_rel\.sys;`)

// dropMatch removes one match of a pattern in a kernel. found reports whether the kernel exists.
func dropMatch(kernel string, pattern *regexp.Regexp, number int, found *bool) func(file, ptx string) string {
	return func(_, ptx string) string {
		lo := strings.Index(ptx, ".entry "+kernel+"(")
		if lo < 0 {
			return ptx
		}
		hi := len(ptx)
		if next := strings.Index(ptx[lo+1:], ".entry"); next >= 0 {
			hi = lo + 1 + next
		}
		n := -1
		*found = true
		return ptx[:lo] + pattern.ReplaceAllStringFunc(ptx[lo:hi], func(s string) string {
			if n++; n == number {
				return ""
			}
			return s
		}) + ptx[hi:]
	}
}

// The tests detect each mutant of the order of stores in kernels.
func TestKernelCrashMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	fence, sync := systemFence, regexp.MustCompile(`bar\.warp\.sync[^;]*;`)
	for _, m := range []struct {
		name, kernel string
		of           *regexp.Regexp
		number       int
		from         uint64 // a seed shortly before the first one that detects the mutant
	}{
		{"what was replaced is used before it is durable", "tick", fence, 0, 3},
		{"no fence before publication", "change", fence, 0, 0},
		{"a lane publishes what others have yet to write", "change", sync, 4, 4},
		{"no fence before a key is published elsewhere", "change_crowded", fence, 0, 58},
		{"a key makes way before it has arrived elsewhere", "change_crowded", fence, 1, 100},
		{"a key that made way is written over", "change_crowded", fence, 2, 20},
		{"no fence before the publication of a crowded key", "change_crowded", fence, 3, 58},
		{"no fence before publication above", "move_up", fence, 0, 0},
		{"a key leaves before it has arrived", "move_up", fence, 1, 7},
	} {
		t.Run(m.name, func(t *testing.T) {
			found := false
			images, failed := exploreKernels(t, m.from, 600_000, dropMatch("gphash_"+m.kernel, m.of, m.number, &found))
			if failed == "" || !found {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
