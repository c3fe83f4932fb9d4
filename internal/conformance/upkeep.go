package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// This file tests properties that most structures have in addition to their interfaces. The limits
// differ by structure.

// WantRefused requires constructors to have rejected options with a message that contains want.
// made maps the kind of structure to the constructor's error.
func WantRefused(t testing.TB, want string, made map[string]error) {
	t.Helper()
	for desc, err := range made {
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "new "+desc+":") {
			t.Errorf("%s: %v, want ErrOptions and %q", desc, err, want)
		}
	}
}

// CompactDropsDead requires Compact to drop dead slots, and to shrink the map if shrinks is set.
// stats returns the number of keys of the map, the number of its dead slots, and its size.
func CompactDropsDead(t testing.TB, m AnyMap[uint64, uint64], shrinks bool, stats func() (live, dead, size int)) {
	t.Helper()
	keys := Sequence[uint64](0, 4000)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	n, err := m.Delete(ctx(), keys[1000:], nil)
	WantCount(t, "Delete", n, 3000, err)
	live, dead, before := stats()
	if live != 1000 || dead != 3000 {
		t.Fatalf("after deleting 3000 of 4000 keys: %d, and %d dead", live, dead)
	}
	for range 2 { // the second call has nothing to do
		must(t, m.Compact(ctx()))
	}
	if live, dead, after := stats(); live != 1000 || dead != 0 || (after < before) != shrinks {
		t.Errorf("Compact leaves %d dead slots, and made a size of %d of %d", dead, after, before)
	}
	WantPairs(t, m, keys[:1000])
}

// LookupsDoNotGrow requires lookups and deletions in mixed batches not to grow a map.
func LookupsDoNotGrow(t testing.TB, dev device.Device, m AnyMap[uint32, uint32], size func() int) {
	t.Helper()
	_, err := m.Put(ctx(), []uint32{1}, []uint32{1})
	must(t, err)
	before := size()
	const n = 1 << 10
	s, keys := devicetest.NewStream(t, dev), Sequence[uint32](10, n)
	on := devicetest.Upload(t, s, keys)
	for _, kind := range []weft.OpKind{weft.OpGet, weft.OpDelete} {
		ops, kinds := make([]weft.Op[uint32, uint32], n), make([]weft.OpKind, n)
		for i := range ops {
			ops[i], kinds[i] = weft.Op[uint32, uint32]{Kind: kind, Key: keys[i]}, kind
		}
		must(t, m.Apply(ctx(), ops, nil))
		must(t, m.ApplyOn(s, devicetest.Upload(t, s, kinds), on, devicetest.Upload(t, s, keys), device.Slice[bool]{}))
		must(t, m.Sync(ctx()))
		if after := size(); after != before {
			t.Errorf("%v: the size is %d, was %d", kind, after, before)
		}
	}
}

// InterruptMaintenance ends the contexts of Clear and Compact after a number of checks. A call that
// has begun its work must finish it. The map must then hold all of its pairs or none.
func InterruptMaintenance(t *testing.T, dev device.Device, open Maker[AnyMap[uint32, uint32]]) {
	for _, name := range []string{"Clear", "Compact"} {
		for nChecks := range int64(9) {
			t.Run(fmt.Sprintf("%s/%d", name, nChecks), func(t *testing.T) { interruptMaintenance(t, dev, open, name, nChecks) })
		}
	}
}

func interruptMaintenance(t testing.TB, dev device.Device, open Maker[AnyMap[uint32, uint32]], name string, nChecks int64) {
	t.Helper()
	const n = 300
	p := target[AnyMap[uint32, uint32]]{open: open}
	m := p.newStructure(t, dev)
	keys, extra := Sequence[uint32](1, n), Sequence[uint32](1000, n)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	_, err = m.Delete(ctx(), keys[:n/2], nil)
	must(t, err)
	call := map[string]func(context.Context) error{"Clear": m.Clear, "Compact": m.Compact}[name]
	err = call(&countdown{ctx(), newCount(nChecks)})
	left := keys[n/2:]
	if name == "Clear" && err == nil {
		left = nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	WantPairs(t, m, left)
	got, err := m.Put(ctx(), extra, extra)
	WantCount(t, "Put after it", got, n, err)
	WantPairs(t, m, append(left, extra...))
}

// Shrinks requires a map to release memory after most of its keys are deleted. bytes returns the
// size of the map.
func Shrinks(t testing.TB, m AnyMap[uint64, uint64], bytes func() int) {
	t.Helper()
	keys := Sequence[uint64](0, 50_000)
	n, err := m.Put(ctx(), keys, keys)
	WantCount(t, "Put", n, len(keys), err)
	before := bytes()
	n, err = m.Delete(ctx(), keys[100:], nil)
	WantCount(t, "Delete", n, len(keys)-100, err)
	if after := bytes(); after > before/16 {
		t.Errorf("%d keys of %d take %d bytes, and all took %d", 100, len(keys), after, before)
	}
	WantPairs(t, m, keys[:100])
}
