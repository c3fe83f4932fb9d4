package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/mutate"
)

// sameSlots returns two keys with the same candidate slots, so that one key takes the slot of the
// other.
func sameSlots(x *Index) (a, b []byte) {
	seen := map[string][]byte{}
	for i := 0; ; i++ {
		key, in := denseKey(x.KeySize(), i), ""
		it := x.engine.item(key)
		for _, l := range x.engine.live {
			in += fmt.Sprint(x.engine.buckets(l, it.hash, nil))
		}
		if seen[in] != nil {
			return seen[in], key
		}
		seen[in] = key
	}
}

// reuse looks up a key while other batches replace it by another key in the same slot and memory,
// and then do the reverse. It returns an error if a lookup has read a value that the key never had.
func reuse(t *testing.T, o Options, gpu sim.Options) (failed error) {
	t.Helper()
	const lookups, rounds = 8, 3
	gpu.Arch = 80
	dev, err := sim.Open(&gpu)
	must(t, err)
	im, err := formatted(t, dev, o, nil)
	must(t, err)
	x, _, err := im.open(OpenOptions{Mirror: o.Mirror, Cache: o.Cache})
	must(t, err)
	a, b := sameSlots(x)
	value := func(of byte) []byte { return bytes.Repeat([]byte{of}, o.ValueSize) }
	_, err = x.Put(ctx, a, value(1))
	must(t, err)
	changes, err := dev.NewStream()
	must(t, err)
	reader, err := dev.NewStream()
	must(t, err)
	var all []device.Slice[byte]
	upload := func(row []byte) device.Slice[byte] {
		on, err := device.Upload(changes, row)
		must(t, err)
		all = append(all, on)
		return on
	}
	keyA, keyB, valueA, valueB := upload(a), upload(b), upload(value(1)), upload(value(2))
	keys, rows := upload(bytes.Repeat(a, lookups)), upload(bytes.Repeat(value(0), lookups))
	must(t, changes.Sync(ctx))
	none := device.Slice[bool]{}
	for range rounds {
		must(t, errors.Join(x.GetOn(reader, keys, rows, none), x.DeleteOn(changes, keyA, none), x.PutOn(changes, keyB, valueB)))
		must(t, errors.Join(x.DeleteOn(changes, keyB, none), x.PutOn(changes, keyA, valueA)))
		all := make([]byte, rows.Len())
		must(t, rows.CopyTo(ctx, reader, all))
		for i := range lookups {
			if got := row(all, i, uint64(o.ValueSize)); !bytes.Equal(got, value(0)) && !bytes.Equal(got, value(1)) {
				failed = fmt.Errorf("a key that has 1 or is absent was read as %x", got)
			}
		}
		must(t, x.Sync(ctx))
	}
	for _, on := range all {
		must(t, on.Free())
	}
	must(t, errors.Join(changes.Close(), reader.Close(), x.Check(ctx), x.Close(), dev.Close()))
	return failed
}

// reuseShapes have all keys in one bucket or two.
var reuseShapes = []Options{
	{KeySize: 8, ValueSize: 8, Slots: 2, Hashes: 2, Levels: 2, Capacity: 1},
	{KeySize: 20, ValueSize: 40, Slots: 4, Hashes: 2, Levels: 1, Capacity: 1},
	{KeySize: 8, ValueSize: 24, Slots: 2, Hashes: 2, Levels: 2, Capacity: 1, Mirror: true},
}

// slowly makes lookups search in order from the first slot. It delays each lookup after it has read
// a control word, and again before it reads the control word a second time. Other delays could have
// the same effect, so any result must be right.
func slowly(t *testing.T) func(file, ptx string) string {
	inOrder := mutate.Replace(t, "get", `(setp\.ne\.s32 %p\d+, %r\d+, %r\d+;\s*)selp\.u32 (%r\d+), 1, 0, %p\d+;`, "${1}mov.u32 $2, 1;")
	return func(file, ptx string) string {
		ptx = inOrder(file, ptx)
		lo := strings.Index(ptx, ".entry gphash_get(")
		if lo < 0 {
			return ptx
		}
		hi := lo + strings.Index(ptx[lo:], ".entry gphash_repeat(")
		const load = "ld.relaxed.sys.global.b64"
		hi = lo + strings.LastIndex(ptx[lo:hi], "fence.acq_rel.gpu;")
		at := lo + strings.LastIndex(ptx[lo:hi], load) // load of a value's word
		end := at + strings.Index(ptx[at:], ";") + 1
		return ptx[:at] + ".reg .b32 %wait;\n.reg .pred %waits;\n" + wait("BEFORE") + ptx[at:end] + wait("BEHIND") + ptx[end:]
	}
}

// wait makes a thread wait, usually long enough for two batches to run on the simulator.
func wait(label string) string {
	return "mov.u32 %wait, 30000;\n$" + label + ":\nsub.s32 %wait, %wait, 1;\nsetp.ne.s32 %waits, %wait, 0;\n@%waits bra $" + label + ";\n"
}

// findReuse tries seeds until a lookup has read the value of another key.
func findReuse(t *testing.T, seeds uint64, rewrite func(file, ptx string) string) (seed uint64, failed error) {
	for seed = range seeds {
		gpu := sim.Options{Seed: seed, Scheduler: sim.Random, Rewrite: rewrite}
		if failed = reuse(t, reuseShapes[seed%3], gpu); failed != nil {
			break
		}
	}
	return seed, failed
}

// This is the defect of the paper's protocol, in kernels. search(k1) ran alongside delete(k1) and
// insert(k2), which took the slot of k1, and returned the value of k2. Freeing slots only in the
// next batch does not prevent that, since a lookup may run alongside several batches. Versions and
// the second read of the control word prevent it.
func TestReuseOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	if seed, failed := findReuse(t, uint64(15**thorough), slowly(t)); failed != nil {
		t.Fatalf("seed %d: %v", seed, failed)
	}
	for _, m := range []struct {
		name, kernels, pattern, with string
	}{
		{"no second look at the control word", "get", `setp\.ne\.s64 (%p\d+), %rd\d+, %rd\d+;(\s*bra\.uni)`, "mov.pred $1, 0;$2"},
		{"no version", ".*", `(add\.s64 %rd\d+, %rd\d+), (281474976710656|562949953421312);`, "$1, 0;"},
	} {
		t.Run(m.name, func(t *testing.T) {
			slow, change := slowly(t), mutate.Replace(t, m.kernels, m.pattern, m.with)
			seed, failed := findReuse(t, 300, func(file, ptx string) string { return change(file, slow(file, ptx)) })
			if failed == nil {
				t.Fatal("not found")
			}
			t.Logf("seed %d: %v", seed, failed)
		})
	}
}
