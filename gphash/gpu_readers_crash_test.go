package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// pendingLookup is a lookup of one key alongside an atomic batch.
type pendingLookup struct {
	key    int
	values device.Slice[byte]
	found  device.Slice[bool]
	at     int // time of its answer; 0 if not answered yet
}

// readersTrial is an atomicKernelTrial with lookups alongside its batches. If a lookup has read a
// value from a batch, no later crash may undo the batch.
type readersTrial struct {
	*atomicKernelTrial
	reader   *device.Stream
	keys     device.Slice[byte] // all keys
	inFlight []*pendingLookup   // lookups in flight
	lastOld  int                // time of the last image without the batch in flight
	nEarly   int                // number of answers from batches that had not returned
	revoked  string             // description of an answer that a crash has undone
}

func newReadersTrial(t testing.TB, seed uint64) *readersTrial {
	tr := &readersTrial{}
	slow := func(_, ptx string) string { return delayed(ptx, 1200) }
	tr.atomicKernelTrial = newWatchedTrial(t, seed, slow, tr.request)
	tr.trial.keys = tr.trial.keys[:6] // each batch changes several of these keys
	tr.before = make([][]byte, len(tr.trial.keys))
	judge := tr.checkContents
	tr.checkContents = func(found *table) int {
		if tr.isOld(found) {
			tr.lastOld = tr.k.Steps()
		}
		return judge(found)
	}
	var err error
	tr.reader, err = tr.dev.NewStream()
	must(t, err)
	tr.keys, err = device.Upload(tr.reader, bytes.Join(tr.trial.keys, nil))
	must(t, err)
	return tr
}

// delayed makes each lookup wait for the given number of rounds before it begins.
func delayed(ptx string, rounds int) string {
	lo := bytes.Index([]byte(ptx), []byte(".entry gphash_get("))
	if lo < 0 {
		return ptx
	}
	at := lo + bytes.Index([]byte(ptx[lo:]), []byte("ld.param"))
	return ptx[:at] + fmt.Sprintf(".reg .b32 %%wait;\n.reg .pred %%waits;\nmov.u32 %%wait, %d;\n$LATE:\nsub.s32 %%wait, %%wait, 1;\nsetp.ne.s32 %%waits, %%wait, 0;\n@%%waits bra $LATE;\n", rounds) + ptx[at:]
}

// request records the time when a lookup has its answer.
func (tr *readersTrial) request(r sim.Request) {
	if r.Kind != sim.Store || r.Kernel != "gphash_get" {
		return
	}
	for _, s := range tr.inFlight {
		if n, _ := r.CountIn(s.found.Ptr(), 1); n > 0 {
			s.at = tr.k.Steps()
		}
	}
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// isOld reports whether an image lacks the batch in flight, or is the same with and without it.
func (tr *readersTrial) isOld(t *table) bool {
	for i, was := range tr.before {
		if same(was, tr.after[i]) {
			continue
		}
		it := t.item(tr.trial.keys[i])
		value, ok := t.get(&it, make([]byte, tr.shape.valueSize))
		return ok == (was != nil) && (!ok || bytes.Equal(value, was))
	}
	return false
}

// run runs batches. Alongside each batch, all keys are looked up in turn, several times.
func (tr *readersTrial) run(t testing.TB) {
	tr.checkCrashes()
	s, err := tr.dev.NewStream()
	must(t, err)
	for range 2 * tr.shape.batches {
		tr.inFlight, tr.lastOld = nil, -1
		for n := range 4 * len(tr.trial.keys) {
			i := n % len(tr.trial.keys)
			at := &pendingLookup{key: i}
			at.values, err = device.Make[byte](tr.dev, tr.shape.valueSize)
			must(t, err)
			at.found, err = device.Make[bool](tr.dev, 1)
			must(t, err)
			tr.inFlight = append(tr.inFlight, at)
			size := tr.shape.keySize
			must(t, tr.index.GetOn(tr.reader, tr.keys.Sub(i*size, (i+1)*size), at.values, at.found))
		}
		tr.runBatch(t, s)
		returned := tr.k.Steps()
		must(t, tr.reader.Sync(t.Context()))
		for _, at := range tr.inFlight {
			tr.checkAnswer(t, at, returned)
		}
		tr.before = tr.after
	}
	must(t, errors.Join(tr.keys.Free(), tr.reader.Close(), s.Close()))
	tr.close(t)
}

// checkAnswer compares the answer of a lookup with the images of crashes since then.
func (tr *readersTrial) checkAnswer(t testing.TB, at *pendingLookup, returned int) {
	value, found := make([]byte, tr.shape.valueSize), make([]bool, 1)
	must(t, errors.Join(at.values.CopyTo(t.Context(), tr.reader, value), at.found.CopyTo(t.Context(), tr.reader, found)))
	must(t, errors.Join(at.values.Free(), at.found.Free()))
	if !found[0] {
		value = nil
	}
	was, is := tr.before[at.key], tr.after[at.key]
	switch {
	case !same(value, was) && !same(value, is):
		tr.fail("a lookup read %x of key %d, which was %x and became %x", value, at.key, was, is)
	case same(value, was):
	case at.at < tr.lastOld:
		tr.revoked = fmt.Sprintf("at %d a lookup read %x of key %d, and a crash at %d leaves the batch out that wrote it", at.at, value, at.key, tr.lastOld)
	case at.at < returned:
		tr.nEarly++
	}
}

// exploreReaders runs programs until about the given number of images is checked or a crash undoes
// an answer.
func exploreReaders(t testing.TB, states int, change func(*readersTrial)) (images, nEarly int, failed, revoked string) {
	for seed := uint64(0); images < states; seed++ {
		tr := newReadersTrial(t, seed)
		if change != nil {
			change(tr)
		}
		tr.run(t)
		images, nEarly = images+tr.trial.nImages, nEarly+tr.nEarly
		if tr.revoked != "" {
			return images, nEarly, failed, fmt.Sprintf("seed %d: %s", seed, tr.revoked)
		}
		if tr.failed != "" {
			failed = fmt.Sprintf("seed %d: %s", seed, tr.failed)
		}
	}
	return images, nEarly, failed, ""
}

// If a lookup reads a value of an atomic batch, the value survives any later crash. The batch need
// not have returned.
func TestReadersSeeWhatSurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, nEarly, failed, revoked := exploreReaders(t, *crashStates/20, nil)
	if failed != "" || revoked != "" {
		t.Fatal(failed, revoked)
	}
	if nEarly == 0 {
		t.Error("no lookup has read what a batch under way has written")
	}
	t.Logf("%d images of crashes, %d answers of batches under way", images, nEarly)
}

// The tests detect a batch that is visible to lookups before it is durable.
func TestReadersSeeTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, _, _, revoked := exploreReaders(t, 60_000, func(tr *readersTrial) {
		tr.host.Mutant = pmtest.NoFence("gphash.(*redoLog).publish", 1)
	})
	if revoked == "" {
		t.Fatalf("not found in %d images", images)
	}
	t.Logf("found after %d images: %.150s", images, revoked)
}
