package gphash

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
	"github.com/weftgo/weft/internal/pool"
)

// crashImage is the pool of a trial after a crash, and its possible contents.
type crashImage struct {
	memory        []byte
	possible      [][][]byte
	before, after [][]byte // contents before and after an atomic batch
}

// collectImages collects images that crashes of a running program would leave.
func (tr *kernelTrial) collectImages(all *[]crashImage, limit int, annotate func(*crashImage)) {
	next := tr.rng.IntN(2000)
	tr.k.Step = func() error {
		if next--; next >= 0 || len(*all) == limit {
			return nil
		}
		next = tr.rng.IntN(2000)
		tr.k.Crash(tr.rng, 1+tr.rng.IntN(3), func() {
			if len(*all) == limit {
				return
			}
			l := crashImage{memory: mappable(int64(tr.k.Memory().Words() * pm.Word))}
			for at := range tr.k.Memory().Words() {
				if v := tr.k.Word(at); v != 0 {
					binary.NativeEndian.PutUint64(l.memory[at*pm.Word:], v)
				}
			}
			for _, allowed := range tr.possible {
				l.possible = append(l.possible, slices.Clone(allowed))
			}
			if annotate != nil {
				annotate(&l)
			}
			*all = append(*all, l)
		})
		return nil
	}
}

// basedDevice is a device that sets the base of a domain when it maps the pool, before any kernel
// stores there.
type basedDevice struct {
	device.Device
	k *pmtest.Kernels
}

func (d *basedDevice) Map(host []byte) (device.Buffer, func() error, error) {
	b, unmap, err := d.Device.Map(host)
	d.k.Base = b.Ptr
	return b, unmap, err
}

func (d *basedDevice) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, s.Driver()), nil
}

// recoverOnGPU opens a crash image on a GPU. It checks crashes during this recovery, after which a
// CPU recovers the pool.
func (tr *kernelTrial) recoverOnGPU(t testing.TB, l crashImage, o OpenOptions, seed uint64, rewrite func(file, ptx string) string, mutant func(*pmtest.Access) bool) *Report {
	tr.possible = l.possible
	tr.k = pmtest.NewKernels(l.memory)
	tr.host = &pmtest.Host{Kernels: tr.k, Mutant: mutant}
	tr.images = &tr.k.Images
	dev, err := sim.Open(&sim.Options{Arch: 80, Scheduler: sim.Random, Seed: seed, Domain: tr.k, Rewrite: rewrite})
	must(t, err)
	tr.dev = &basedDevice{dev, tr.k}
	p, err := pool.OpenMemory(pm.New(l.memory, tr.host))
	must(t, err)
	tr.checkCrashes()
	c, e, report, err := openTable(t.Context(), p, tr.dev, o, core.Types{})
	must(t, err)
	if report.Damaged > 0 {
		tr.fail("damaged: %q", report.Damage)
	}
	tr.index = &Index{c, e}
	e.accel = syncedClear{e.accel, tr.k}
	return report
}

// contents returns the values of all keys that the host finds in the pool.
func (tr *kernelTrial) contents() (contents [][]byte) {
	t := tr.index.engine.table
	for _, key := range tr.keys {
		it := t.item(key)
		value, ok := t.get(&it, make([]byte, tr.shape.valueSize))
		if !ok {
			value = nil
		}
		contents = append(contents, value)
	}
	return contents
}

// exploreRecovery runs programs on a GPU, beginning with the seed from. It simulates crashes of
// each program, and then crashes of the recovery by a GPU and of the batch after the recovery. It
// stops once about the given number of images has been checked.
func exploreRecovery(t testing.TB, from uint64, states int, atomic bool, rewrite func(file, ptx string) string, mutant func(*pmtest.Access) bool) (images int, mended Report, failed string) {
	during := 0
	for seed := from; images < states; seed++ {
		var all []crashImage
		tr, whole := (*kernelTrial)(nil), (*atomicKernelTrial)(nil)
		if atomic {
			whole = newAtomicKernelTrial(t, seed, nil)
			tr = whole.kernelTrial
			tr.collectImages(&all, 4, func(l *crashImage) { l.before, l.after = whole.before, whole.after })
			whole.runBatches(t)
		} else {
			tr = newKernelTrial(t, seed, nil)
			tr.collectImages(&all, 4, nil)
			tr.runBatches(t)
		}
		tr.close(t)
		tr.shape.batches, tr.maxImages = 1, 6
		for i, l := range all {
			o := OpenOptions{Mirror: i%2 == 0, Resize: Resize((seed + uint64(i)) / 2 % 2)}
			if atomic {
				whole.before, whole.after = l.before, l.after
			}
			tr.maxSteps = 10
			report := tr.recoverOnGPU(t, l, o, 4*seed+uint64(i), rewrite, mutant)
			during, tr.maxSteps = during+tr.nImages, 40
			mended.Unfinished, mended.Tombs, mended.Moved = mended.Unfinished+report.Unfinished, mended.Tombs+report.Tombs, mended.Moved+report.Moved
			mended.Replayed, mended.Resumed = mended.Replayed+report.Replayed, mended.Resumed || report.Resumed
			if is := tr.contents(); atomic {
				whole.before, whole.after = is, is
				whole.runBatches(t)
			} else {
				for i, value := range is {
					tr.possible[i] = [][]byte{value}
				}
				tr.runBatches(t)
			}
			tr.close(t)
			images, tr.nImages = images+tr.nImages, 0
			if tr.failed != "" {
				return images, mended, fmt.Sprintf("seed %d, image %d: %s", seed, i, tr.failed)
			}
		}
	}
	if during < images/20 {
		failed = fmt.Sprintf("only %d of %d images are of crashes of recovery", during, images)
	}
	return images, mended, failed
}

// A crash interrupts the recovery by a GPU, with kernels that repair slots in any order, or the
// first batch after it. The next opening finds the same contents as the interrupted one.
func TestCrashesInRecoveryOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, atomic := range []bool{false, true} {
		images, mended, failed := exploreRecovery(t, 0, *crashStates/100, atomic, nil, nil)
		if failed != "" {
			t.Fatal(failed)
		}
		if !atomic && (mended.Tombs == 0 || mended.Unfinished == 0) || atomic && mended.Replayed == 0 || !mended.Resumed {
			t.Errorf("atomic %v: a GPU has mended only %+v", atomic, mended)
		}
		t.Logf("atomic %v: %d images of crashes, of what had %d unfinished insertions, %d tombs, %d keys twice, %d batches in the log",
			atomic, images, mended.Unfinished, mended.Tombs, mended.Moved, mended.Replayed)
	}
}

// The tests detect each mutant of recovery by a GPU.
func TestRecoveryCrashMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	noFence := func(site string) func(*pmtest.Access) bool {
		return func(a *pmtest.Access) bool {
			f, _ := pmtest.Site()
			return a.Kind == pmtest.Fence && f == site
		}
	}
	for _, m := range []struct {
		name    string
		atomic  bool
		rewrite func(file, ptx string) string
		mutant  func(*pmtest.Access) bool
	}{
		{"slots that were freed are used before that is durable", false, mutate.Replace(t, "tick", `fence\.acq_rel\.sys;`, ""), nil},
		{"the log is emptied before its slots are durable", true, nil, noFence("gphash.(*engine).reapply")},
	} {
		t.Run(m.name, func(t *testing.T) {
			images, _, failed := exploreRecovery(t, 0, 200_000, m.atomic, m.rewrite, m.mutant)
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.150s", images, failed)
		})
	}
}
