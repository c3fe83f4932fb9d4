package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// stringsTrial runs byte strings on a simulated GPU. A crash may lose stores of host and kernels.
type stringsTrial struct {
	*kernelTrial
	index         *Strings
	before, after [][]byte // contents before and after an atomic batch, by key; nil if absent
	full          int      // number of batches without space
}

// stringShapes are so small that keys collide and must move.
var stringShapes = []smallShape{
	{slots: 2, hashes: 2, levels: 2, top: 1, batches: 6, ops: 14, keys: 24},
	{keySize: 20, slots: 2, hashes: 2, levels: 2, top: 1, batches: 6, ops: 12, keys: 20},
	{valueSize: 9, slots: 4, hashes: 2, levels: 2, top: 0, batches: 6, ops: 12, keys: 24},
}

func newStringsTrial(t testing.TB, atomic bool, seed uint64, rewrite func(file, ptx string) string) *stringsTrial {
	o := Options{}
	if atomic {
		o.AtomicBatch, o.AtomicTail = 14, int(seed/3%3)*20
	}
	tr := &stringsTrial{kernelTrial: newKernelTrialIn(t, stringShapes[seed%uint64(len(stringShapes))], o, seed, rewrite, nil)}
	tr.index = &Strings{tr.kernelTrial.index.core, tr.kernelTrial.index.engine}
	tr.maxImages = 8
	tr.revert = func(rng *rand.Rand, since int) { tr.k.RevertUnfenced(rng, since) }
	tr.before = make([][]byte, len(tr.keys))
	tr.after = tr.before
	if atomic {
		whole := &atomicTrial{trial: tr.trial}
		tr.checkContents = func(t *table) int {
			whole.before, whole.after = tr.before, tr.after
			return whole.checkWhole(t)
		}
	}
	return tr
}

// run runs batches and checks crashes at a sample of the possible points. The changes of a returned
// call must be durable.
func (tr *stringsTrial) run(t testing.TB) {
	tr.checkCrashes()
	for range tr.shape.batches {
		if tr.index.engine.redo != nil && tr.rng.IntN(10) == 0 {
			tr.after = make([][]byte, len(tr.keys))
			must(t, tr.index.Clear(t.Context()))
		} else {
			tr.runBatch(t)
		}
		tr.before = tr.after
	}
	tr.k.Step = nil
	if err := tr.index.Check(t.Context()); err != nil {
		tr.fail("%v", err)
	}
	tr.close(t)
}

func (tr *stringsTrial) runBatch(t testing.TB) {
	n := 1 + tr.rng.IntN(tr.shape.ops)
	kinds, want, wantOK := make([]weft.OpKind, n), make([][]byte, n), make([]bool, n)
	var keys, values, got Bytes
	tr.after = slices.Clone(tr.before)
	for i := range n {
		k, value := tr.rng.IntN(len(tr.keys)), tr.shape.value(tr.rng)
		kinds[i] = [...]weft.OpKind{weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpUpdate, weft.OpDelete, weft.OpGet}[tr.rng.IntN(6)]
		keys.Append(tr.keys[k])
		values.Append(value)
		is := tr.after[k]
		wantOK[i] = (is == nil) != (kinds[i] == weft.OpGet || kinds[i] == weft.OpUpdate || kinds[i] == weft.OpDelete)
		switch {
		case kinds[i] == weft.OpPut, kinds[i] == weft.OpPutNew && is == nil, kinds[i] == weft.OpUpdate && is != nil:
			tr.after[k] = value
		case kinds[i] == weft.OpUpdate:
		case kinds[i] == weft.OpDelete:
			tr.after[k] = nil
		default:
			want[i] = is
		}
		tr.possible[k] = append(tr.possible[k], tr.after[k])
	}
	ok := make([]bool, n)
	err := tr.index.Apply(t.Context(), kinds, keys, values, &got, ok)
	switch {
	case tr.index.engine.redo != nil && (errors.Is(err, weft.ErrFull) || errors.Is(err, ErrSkewed)):
		tr.after = tr.before
		tr.full++
	case err != nil:
		tr.fail("%v", err)
	case !slices.Equal(ok, wantOK):
		tr.fail("%v: %v, want %v", kinds, ok, wantOK)
	}
	for i := 0; err == nil && i < n; i++ {
		if !bytes.Equal(got.Row(i), want[i]) {
			tr.fail("%v: operation %d read %x, want %x", kinds, i, got.Row(i), want[i])
		}
	}
	for i := range tr.possible {
		tr.possible[i] = [][]byte{tr.after[i]}
	}
}

// exploreStrings runs programs, beginning with the seed from, until about the given number of
// images has been checked.
func exploreStrings(t testing.TB, atomic bool, from uint64, states int, rewrite func(file, ptx string) string, change func(*stringsTrial)) (images, resizes int, failed string) {
	for seed := from; images < states; seed++ {
		tr := newStringsTrial(t, atomic, seed, rewrite)
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

// After a crash that loses stores of kernels and of the host, all acknowledged operations are done.
// Each operation of an interrupted batch is done or not. An atomic batch is done or not.
func TestCrashesOfStrings(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, atomic := range []bool{false, true} {
		t.Run(fmt.Sprint("atomic ", atomic), func(t *testing.T) {
			images, resizes, failed := exploreStrings(t, atomic, 0, *crashStates/100, nil, nil)
			if failed != "" {
				t.Fatal(failed)
			}
			if resizes == 0 {
				t.Error("no index has grown")
			}
			t.Logf("%d images of crashes, %d resizes", images, resizes)
		})
	}
}

// The tests detect each mutant of the order of stores for byte strings on a GPU.
func TestStringsCrashMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	host := func(mutant func(a *pmtest.Access, site string) bool) func(*stringsTrial) {
		return func(tr *stringsTrial) {
			tr.host.Mutant = func(a *pmtest.Access) bool {
				site, _ := pmtest.Site()
				return mutant(a, site)
			}
		}
	}
	noFence := func(at string) func(*stringsTrial) {
		return host(func(a *pmtest.Access, site string) bool { return a.Kind == pmtest.Fence && site == at })
	}
	for _, m := range []struct {
		name   string
		atomic bool
		kernel string // kernel without fence number n
		n      int
		from   uint64 // a seed shortly before the first one that detects the mutant
		change func(*stringsTrial)
	}{
		{name: "no fence behind records", change: noFence("gphash.(*placer).placeRecords")},
		{name: "what was replaced is used before it is durable", kernel: "gphash_tick"},
		{name: "published before its notes, emptied before its slots", atomic: true, kernel: "gphash_tick"},
		{name: "no fence before publication", kernel: "gphash_strings_change"},
		{name: "no fence before the publication of a crowded key", kernel: "gphash_strings_change_crowded", from: 118},
		{name: "no fence before a key is published elsewhere", kernel: "gphash_strings_change_crowded", n: 1, from: 61},
		{name: "a key makes way before it has arrived elsewhere", kernel: "gphash_strings_change_crowded", n: 2, from: 61},
		{name: "a key that made way is written over", kernel: "gphash_strings_change_crowded", n: 3, from: 74},
		{name: "no fence before publication above", kernel: "gphash_strings_move_up", from: 5},
		{name: "a key leaves before it has arrived", kernel: "gphash_strings_move_up", n: 1, from: 8},
		{name: "no fence around publication", atomic: true, change: noFence("gphash.(*redoLog).publish")},
	} {
		t.Run(m.name, func(t *testing.T) {
			found, rewrite := true, func(_, ptx string) string { return ptx }
			if m.kernel != "" {
				found = false
				rewrite = dropMatch(m.kernel, systemFence, m.n, &found)
			}
			images, _, failed := exploreStrings(t, m.atomic, m.from, 300_000, rewrite, m.change)
			if failed == "" || !found {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
