package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// atomicKernelTrial is a trial of kernels with atomic batches. Kernels crash, or the host between
// them. Then all keys are as before the running batch, or all are as after it.
type atomicKernelTrial struct {
	*kernelTrial
	before, after [][]byte // by key; nil if absent
	refused       int      // number of batches
}

func newAtomicKernelTrial(t testing.TB, seed uint64, rewrite func(file, ptx string) string) *atomicKernelTrial {
	return newWatchedTrial(t, seed, rewrite, nil)
}

// newWatchedTrial returns a trial in which requests receives the memory accesses of kernels.
func newWatchedTrial(t testing.TB, seed uint64, rewrite func(file, ptx string) string, requests func(sim.Request)) *atomicKernelTrial {
	// slots are updated at once, or later
	o := Options{AtomicBatch: 14, AtomicTail: int(seed/3%3) * 20}
	tr := &atomicKernelTrial{kernelTrial: newKernelTrialOf(t, o, seed, rewrite, requests)}
	tr.before = make([][]byte, len(tr.keys))
	tr.after = tr.before
	tr.maxImages = 8
	tr.revert = func(rng *rand.Rand, since int) { tr.k.RevertUnfenced(rng, since) }
	whole := &atomicTrial{trial: tr.trial}
	tr.checkContents = func(t *table) int {
		whole.before, whole.after = tr.before, tr.after
		return whole.checkWhole(t)
	}
	return tr
}

// run runs batches and checks crashes at a sample of the possible points.
func (tr *atomicKernelTrial) run(t testing.TB) {
	tr.checkCrashes()
	tr.runBatches(t)
	tr.close(t)
}

func (tr *atomicKernelTrial) runBatches(t testing.TB) {
	s, err := tr.dev.NewStream()
	must(t, err)
	for range 2 * tr.shape.batches {
		if tr.rng.IntN(10) == 0 {
			tr.after = make([][]byte, len(tr.keys))
			must(t, tr.index.Clear(t.Context()))
		} else {
			tr.runBatch(t, s)
		}
		tr.before = tr.after
	}
	must(t, s.Close())
	if err := tr.index.Check(t.Context()); err != nil {
		tr.fail("%v", err)
	}
}

// runBatch runs operations of all kinds, several on a key, and compares their results.
func (tr *atomicKernelTrial) runBatch(t testing.TB, s *device.Stream) {
	n, size, vsize := 1+tr.rng.IntN(tr.shape.ops), tr.shape.keySize, tr.shape.valueSize
	kinds, keys, values, want := make([]weft.OpKind, n), []byte(nil), make([]byte, n*vsize), make([]byte, n*vsize)
	tr.after = slices.Clone(tr.before)
	for i := range n {
		k, value := tr.rng.IntN(len(tr.keys)), row(values, i, uint64(vsize))
		kinds[i] = [...]weft.OpKind{weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpGet}[tr.rng.IntN(5)]
		keys = append(keys, tr.keys[k]...)
		for j := range value {
			value[j] = byte(tr.rng.Uint32())
		}
		switch is := tr.after[k]; {
		case kinds[i] == weft.OpPut, kinds[i] == weft.OpPutNew && is == nil:
			tr.after[k] = bytes.Clone(value)
		case kinds[i] == weft.OpDelete:
			tr.after[k] = nil
		default:
			copy(want[i*vsize:], is)
		}
	}
	var err error
	if tr.rng.IntN(2) == 0 {
		err = tr.index.Apply(t.Context(), kinds, keys, values, nil)
	} else {
		err = tr.applyOn(t, s, kinds, keys, values)
	}
	switch {
	case errors.Is(err, weft.ErrFull) || errors.Is(err, ErrSkewed):
		tr.after = tr.before
		tr.refused++
	case err != nil:
		tr.fail("%v", err)
	case len(keys) != n*size || !bytes.Equal(values, want):
		tr.fail("%v: read %x, want %x", kinds, values, want)
	}
}

func (tr *atomicKernelTrial) applyOn(t testing.TB, s *device.Stream, kinds []weft.OpKind, keys, values []byte) error {
	k, err := device.Upload(s, keys)
	must(t, err)
	v, err := device.Upload(s, values)
	must(t, err)
	o, err := device.Upload(s, kinds)
	must(t, err)
	err = errors.Join(tr.index.ApplyOn(s, o, k, v, device.Slice[bool]{}), tr.index.Sync(t.Context()))
	must(t, s.CopyOut(t.Context(), values, v.Ptr()))
	must(t, errors.Join(k.Free(), v.Free(), o.Free()))
	return err
}

// exploreAtomicKernels runs programs until about the given number of images has been checked.
func exploreAtomicKernels(t testing.TB, states int, rewrite func(file, ptx string) string, change func(*atomicKernelTrial)) (images, resizes int, failed string) {
	for seed := uint64(0); images < states; seed++ {
		tr := newAtomicKernelTrial(t, seed, rewrite)
		if change != nil {
			change(tr)
		}
		tr.run(t)
		images, resizes = images+tr.nImages, resizes+int(tr.index.engine.nResizes)
		if tr.failed != "" {
			return images, resizes, fmt.Sprintf("seed %d: %s", seed, tr.failed)
		}
	}
	return images, resizes, ""
}

// A crash may lose stores of kernels and of the host, even during recovery. Then either all
// operations of the running batch are done or none, and all earlier batches are done.
func TestAtomicCrashesOfKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, resizes, failed := exploreAtomicKernels(t, *crashStates/100, nil, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	if resizes == 0 {
		t.Error("no index has grown")
	}
	t.Logf("%d images of crashes, %d resizes", images, resizes)
}

// The tests detect each mutant of atomic batches on a GPU.
func TestAtomicKernelMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	// replaceIn replaces a part of a kernel.
	replaceIn := func(kernel, pattern, replacement string) func(file, ptx string) string {
		return func(_, ptx string) string {
			lo := strings.Index(ptx, ".entry gphash_"+kernel+"(")
			if lo < 0 {
				return ptx
			}
			at := lo + strings.Index(ptx[lo:], pattern)
			return ptx[:at] + replacement + ptx[at+len(pattern):]
		}
	}
	returnAtOnce := func(kernel string) func(file, ptx string) string { return replaceIn(kernel, "\n{", "\n{\nret;") }
	host := func(mutant func(tr *atomicKernelTrial, a *pmtest.Access, site string) bool) func(*atomicKernelTrial) {
		return func(tr *atomicKernelTrial) {
			tr.host.Mutant = func(a *pmtest.Access) bool {
				site, _ := pmtest.Site()
				return mutant(tr, a, site)
			}
		}
	}
	head := func(tr *atomicKernelTrial, a *pmtest.Access) bool {
		return a.Kind == pmtest.Store && a.At == tr.index.engine.redo.first+headSum && a.New != unpublished
	}
	for _, m := range []struct {
		name    string
		rewrite func(file, ptx string) string
		change  func(*atomicKernelTrial)
	}{
		{name: "published before its records, emptied before its slots", rewrite: replaceIn("tick", "fence.acq_rel.sys;", "")},
		{name: "records are not written", rewrite: returnAtOnce("log")},
		{name: "slots are not written", rewrite: returnAtOnce("home")},
		{name: "slots that are claimed stay so when a batch is refused", rewrite: returnAtOnce("undo")},
		{name: "a key that has made way changes where it was", rewrite: returnAtOnce("follow")},
		{name: "applied before publication", change: host(func(tr *atomicKernelTrial, a *pmtest.Access, _ string) bool {
			return head(tr, a) && a.New != applied
		})},
		{name: "emptied before it is applied", change: host(func(tr *atomicKernelTrial, a *pmtest.Access, _ string) bool {
			if head(tr, a) {
				a.New = applied
			}
			return false
		})},
		{name: "no fence around publication", change: host(func(_ *atomicKernelTrial, a *pmtest.Access, site string) bool {
			return a.Kind == pmtest.Fence && site == "gphash.(*redoLog).publish"
		})},
		{name: "no fence behind its end", change: host(func(_ *atomicKernelTrial, a *pmtest.Access, site string) bool {
			return a.Kind == pmtest.Fence && site == "gphash.(*redoLog).truncate"
		})},
	} {
		t.Run(m.name, func(t *testing.T) {
			images, _, failed := exploreAtomicKernels(t, 300_000, m.rewrite, m.change)
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
