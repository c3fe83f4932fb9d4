package gphash

import (
	"fmt"
	"regexp"
	"slices"
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

// kernelTrial is a trial of kernels: batches on a simulated GPU, whose stores a crash may lose.
type kernelTrial struct {
	*trial
	k     *pmtest.Kernels
	dev   device.Device
	index *Index
	stops int // between two points at which crashes are looked at
}

// kernelShapes are small enough for keys to collide, and to make way for each other.
var kernelShapes = []small{
	{keySize: 8, valueSize: 8, slots: 2, hashes: 2, levels: 2, top: 1, batches: 9, ops: 14, keys: 24},
	{keySize: 20, valueSize: 24, slots: 2, hashes: 2, levels: 2, top: 1, batches: 6, ops: 12, keys: 20},
	{keySize: 8, valueSize: 130, slots: 4, hashes: 2, levels: 2, top: 0, batches: 6, ops: 12, keys: 24},
}

func newKernelTrial(t testing.TB, seed uint64, rewrite func(file, ptx string) string) *kernelTrial {
	shape := kernelShapes[seed%uint64(len(kernelShapes))]
	tr := &kernelTrial{trial: newTrial(shape, seed), stops: 8}
	tr.most = 24
	const words = pool.DataStart/pm.Word + 64*growthUnit
	memory := make([]uint64, words+device.MapAlign/pm.Word)
	for uintptr(unsafe.Pointer(&memory[0]))%device.MapAlign != 0 {
		memory = memory[1:]
	}
	mapped := device.Bytes(memory[:words])
	o := Options{KeySize: shape.keySize, ValueSize: shape.valueSize, Slots: shape.slots, Hashes: shape.hashes, Levels: shape.levels,
		Capacity: 1, Hash: SipHash, Seed: tr.seed, Size: words * pm.Word}
	first, err := o.plan(growthUnit)
	must(t, err)
	p, err := pool.Format(pm.New(mapped, nil), first)
	must(t, err)
	for at := first.Levels[first.Top].Offset/pm.Word + growthUnit; at < words; at++ {
		memory[at] = tr.rng.Uint64() // memory that is free may have anything
	}
	tr.k = pmtest.NewKernels(mapped)
	tr.images = &tr.k.Images
	tr.find = func(goOn bool) (*table, *Report) { return tr.reopen(tr.k.Memory(), goOn) }
	tr.dev, err = sim.Open(&sim.Options{Arch: 80, Scheduler: sim.Random, Seed: seed, Domain: tr.k, Rewrite: rewrite})
	must(t, err)
	c, e, _, err := serve(t.Context(), p, tr.dev, OpenOptions{}, core.Types{})
	must(t, err)
	tr.index = &Index{c, e}
	tr.k.Base = e.far.(*gpuEngine).k.pool.Ptr
	tr.k.Settle()
	return tr
}

// run runs batches of operations of all kinds, several on a key, and looks at crashes at some of the
// points where there may be some.
func (tr *kernelTrial) run(t testing.TB) {
	generation := func() uint64 { return tr.index.engine.pool.Superblock().Generation }
	was, next := generation(), 0
	tr.k.Step = func() error {
		if now := generation(); now != was { // the host has written, when nothing was under way
			was = now
			tr.k.Settle()
		}
		if next--; next < 0 && tr.failed == "" {
			next = tr.rng.IntN(tr.stops)
			tr.k.Crash(tr.rng, tr.most, tr.look)
		}
		return nil
	}
	for range tr.shape.batches {
		tr.batch(t)
	}
	tr.k.Step = nil
	must(t, tr.index.Close())
	must(t, tr.dev.Close())
}

func (tr *kernelTrial) batch(t testing.TB) {
	s := tr.shape
	n := 1 + tr.rng.IntN(s.ops)
	kinds, ok := make([]op.Kind, n), make([]bool, n)
	var keys, values []byte
	after := make([][]byte, len(tr.keys))
	for i := range after {
		after[i] = tr.may[i][0]
	}
	reads := make([][]byte, n)
	for i := range n {
		kinds[i] = [...]op.Kind{op.Put, op.Put, op.PutNew, op.Delete, op.Get}[tr.rng.IntN(5)]
		at := tr.rng.IntN(len(tr.keys))
		value := make([]byte, s.valueSize)
		for j := range value {
			value[j] = byte(tr.rng.Uint32())
		}
		keys, values = append(keys, tr.keys[at]...), append(values, value...)
		reads[i] = make([]byte, s.valueSize)
		is := after[at]
		switch {
		case kinds[i] == op.Put, kinds[i] == op.PutNew && is == nil:
			after[at] = value
		case kinds[i] == op.Delete:
			after[at] = nil
		default:
			copy(reads[i], is)
		}
		tr.may[at] = append(tr.may[at], after[at])
	}
	must(t, tr.index.Apply(t.Context(), kinds, keys, values, ok))
	if got := slices.Concat(reads...); string(values) != string(got) {
		tr.fail("%v read %x, want %x", kinds, values, got)
	}
	tr.k.Settle()
	for i := range after {
		tr.may[i] = [][]byte{after[i]}
	}
}

// exploreKernels runs programs until about so many images have been looked at.
func exploreKernels(t testing.TB, states int, rewrite func(file, ptx string) string) (images int, failed string) {
	for seed := uint64(0); images < states; seed++ {
		tr := newKernelTrial(t, seed, rewrite)
		tr.run(t)
		images += tr.seen
		if tr.failed != "" {
			return images, fmt.Sprintf("seed %d: %s", seed, tr.failed)
		}
	}
	return images, ""
}

// Whatever a crash leaves of the stores of kernels: no acknowledged operation is lost, and each of
// a batch that was cut short is there or not.
func TestCrashesOfKernels(t *testing.T) {
	images, failed := exploreKernels(t, *crashStates/100, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	t.Logf("%d images of crashes", images)
}

// Mutants of the order of stores of kernels: each is found.
func TestKernelCrashMutants(t *testing.T) {
	fence := regexp.MustCompile(`fence\.acq_rel\.sys;`)
	for _, m := range []struct {
		name, kernel string
		number       int
	}{
		{"what was replaced is used before it is durable", "recycle", 0},
		{"no fence before publication", "change", 0},
		{"no fence before the publication of a crowded key", "change_crowded", 0},
		{"no fence before a key is published elsewhere", "change_crowded", 1},
		{"a key makes way before it has arrived elsewhere", "change_crowded", 2},
		{"a key that made way is written over", "change_crowded", 3},
		{"no fence before publication above", "move_up", 0},
		{"a key leaves before it has arrived", "move_up", 1},
	} {
		t.Run(m.name, func(t *testing.T) {
			found := false
			images, failed := exploreKernels(t, 300_000, func(file, ptx string) string {
				lo := strings.Index(ptx, ".entry gphash_"+m.kernel+"(")
				if lo < 0 {
					return ptx
				}
				hi := lo + strings.Index(ptx[lo:], "\n}")
				n := -1
				found = true
				return ptx[:lo] + fence.ReplaceAllStringFunc(ptx[lo:hi], func(s string) string {
					if n++; n == m.number {
						return ""
					}
					return s
				}) + ptx[hi:]
			})
			if failed == "" || !found {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
