package dst

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

func at(from, till int64, kind weft.OpKind, val uint64, ok bool, got uint64) event {
	return event{
		op: weft.Op[uint64, uint64]{Kind: kind, Key: 1, Value: val}, returns: Returns{OK: true, Vals: true}, ok: ok, val: got, start: from, end: till,
	}
}

// loading returns the event with the results of a GetOrPut.
func loading(e event) event {
	e.returns.Loaded = true
	return e
}

func TestCheck(t *testing.T) {
	type events = []event
	tests := []struct {
		name      string
		h         events
		maybeFull bool
		legal     bool
	}{
		{"nothing there", events{at(1, 2, weft.OpGet, 0, false, 0)}, false, true},
		{"out of thin air", events{at(1, 2, weft.OpGet, 0, true, 5)}, false, false},
		{"put then get", events{at(1, 2, weft.OpPut, 5, true, 0), at(3, 4, weft.OpGet, 0, true, 5)}, false, true},
		{"put then stale get", events{at(1, 2, weft.OpPut, 5, true, 0), at(3, 4, weft.OpGet, 0, false, 0)}, false, false},
		{"put beside stale get", events{at(1, 4, weft.OpPut, 5, true, 0), at(3, 5, weft.OpGet, 0, false, 0)}, false, true},
		{"two puts both new", events{at(1, 4, weft.OpPut, 5, true, 0), at(1, 4, weft.OpPut, 6, true, 0)}, false, false},
		{"two puts, a delete between", events{at(1, 4, weft.OpPut, 5, true, 0), at(1, 4, weft.OpDelete, 0, true, 0), at(1, 4, weft.OpPut, 6, true, 0)}, false, true},
		{"delete twice", events{at(1, 4, weft.OpPut, 5, true, 0), at(5, 9, weft.OpDelete, 0, true, 0), at(5, 9, weft.OpDelete, 0, true, 0)}, false, false},
		{"putnew returns the other's value", events{at(1, 4, weft.OpPutNew, 5, true, 0), at(1, 4, weft.OpPutNew, 6, false, 5)}, false, true},
		{"putnew returns its own value", events{at(1, 4, weft.OpPutNew, 5, true, 0), at(1, 4, weft.OpPutNew, 6, false, 6)}, false, false},
		{"putnew of an absent key fails", events{at(1, 4, weft.OpPutNew, 5, false, 0)}, false, false},
		{"getorput leaves its value", events{loading(at(1, 2, weft.OpPutNew, 5, true, 5)), loading(at(3, 4, weft.OpPutNew, 6, false, 5))}, false, true},
		{"getorput loses its value", events{loading(at(1, 2, weft.OpPutNew, 5, true, 0))}, false, false},
		{"getorput leaves the value of another", events{loading(at(1, 2, weft.OpPutNew, 5, true, 5)), loading(at(3, 4, weft.OpPutNew, 6, false, 6))}, false, false},
		{"the same in a full map", events{at(1, 4, weft.OpPutNew, 5, false, 0), at(5, 6, weft.OpGet, 0, false, 0)}, true, true},
		{"in a full map its value may stay", events{at(1, 4, weft.OpPutNew, 5, false, 5), at(5, 6, weft.OpGet, 0, false, 0)}, true, true},
		{"but no other may come", events{at(1, 4, weft.OpPutNew, 5, false, 6), at(5, 6, weft.OpGet, 0, false, 0)}, true, false},
		{"a full map replaces", events{at(1, 2, weft.OpPut, 5, true, 0), at(3, 4, weft.OpPut, 6, false, 0), at(5, 6, weft.OpGet, 0, true, 6)}, true, true},
		{"a full map forgets to", events{at(1, 2, weft.OpPut, 5, true, 0), at(3, 4, weft.OpPut, 6, false, 0), at(5, 6, weft.OpGet, 0, true, 5)}, true, false},
	}
	for _, test := range tests {
		for i := range test.h {
			test.h[i].maybeFull = test.maybeFull
		}
		h := history{reduce: reduced[uint64], events: test.h, timed: true, before: make([]batchSet, 1)}
		if _, err := h.check(); (err == nil) != test.legal {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestProgramsComeFromTheSeed(t *testing.T) {
	text := func(seed uint64) string {
		return generate(rand.New(rand.NewPCG(seed, 0)), Shapes[0], Config[uint32, uint32]{}.erase()).String()
	}
	one := text(1)
	if again := text(1); again != one || text(2) == one {
		t.Errorf("one seed, one program; another, another")
	}
}

type hostMap struct {
	dev       device.Device
	m         map[uint64]uint64
	broken    bool // deletes ignore keys with a certain bit
	backwards bool // operations of a batch run in reverse
	refuses   bool // it never has room
	stores    func(v uint64) uint64
}

func (h *hostMap) Submit(s *device.Stream, c *Columns[uint64, uint64]) (Returns, error) {
	n := c.Keys.Len()
	keys, vals, ok, kinds := make([]uint64, n), make([]uint64, n), make([]bool, n), make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = c.Kind
	}
	err := errors.Join(c.Keys.CopyTo(context.Background(), s, keys), c.Vals.CopyTo(context.Background(), s, vals))
	if c.Kinds.Len() > 0 {
		err = errors.Join(err, c.Kinds.CopyTo(context.Background(), s, kinds))
	}
	for j := range keys {
		i := j
		if h.backwards {
			i = n - 1 - j
		}
		k := keys[i]
		old, present := h.m[k]
		switch kinds[i] {
		case weft.OpGet:
			vals[i], ok[i] = old, present
		case weft.OpPut:
			if ok[i] = !present && !h.refuses; present || ok[i] {
				h.m[k] = h.stored(vals[i])
			}
		case weft.OpPutNew:
			if ok[i] = !present && !h.refuses; ok[i] {
				h.m[k] = h.stored(vals[i])
			}
			vals[i] = old
		case weft.OpDelete:
			if ok[i] = present; !h.broken || k&2 == 0 {
				delete(h.m, k)
			}
		}
	}
	return Returns{OK: true, Vals: true}, errors.Join(err, c.Vals.CopyFrom(s, vals), c.OK.CopyFrom(s, ok))
}

func (h *hostMap) stored(v uint64) uint64 {
	if h.stores != nil {
		return h.stores(v)
	}
	return v
}

func (h *hostMap) Sync(context.Context) error { return nil }
func (h *hostMap) Len() int                   { return len(h.m) }
func (h *hostMap) Close() error               { return nil }

func configOf(h hostMap) Config[uint64, uint64] {
	return Config[uint64, uint64]{New: func(dev device.Device, _ Shape) (Subject[uint64, uint64], error) {
		h := h
		h.dev, h.m = dev, map[uint64]uint64{}
		return &h, nil
	}}
}

// Batch order must be required, unless the structure does not promise it.
func TestUnordered(t *testing.T) {
	cfg := configOf(hostMap{backwards: true})
	if f, _ := Find(cfg); f == nil {
		t.Error("a map that runs batches backwards passes")
	}
	cfg.Unordered = true
	if f, _ := Find(cfg); f != nil {
		t.Errorf("any order is allowed: %v", f.Err)
	}
}

// A correct map must pass. A broken map must be detected, and the program must shrink to the
// minimum: a Put and a Delete of one key.
func TestFind(t *testing.T) {
	cfg := configOf(hostMap{})
	if f, tried := Find(cfg); f != nil || tried.Programs != defaultSeeds {
		t.Errorf("a map that works: %+v after %v", f, tried)
	}
	f, _ := Find(configOf(hostMap{broken: true}))
	if f == nil {
		t.Fatal("a map that keeps what is deleted passes")
	}
	if f.Ops > 3 || !strings.Contains(f.Shrunk, "Delete") || !strings.Contains(f.ShrunkErr.Error(), "explains") {
		t.Errorf("shrunk to %d operations: %v\n%s", f.Ops, f.Err, f.Shrunk)
	}
}

// A map that rejects all keys must not be excused as full.
func TestRefusal(t *testing.T) {
	for _, shape := range Shapes {
		if shape.Fixed {
			cfg := configOf(hostMap{refuses: true})
			cfg.Shapes, cfg.Seeds, cfg.NoShrink = []Shape{shape}, 1, true
			if f, _ := Find(cfg); f == nil {
				t.Errorf("%s: a map that refuses all keys passes", shape.Name)
			}
		}
	}
}

// A map that loses any bits of values must be detected.
func TestValues(t *testing.T) {
	for name, broken := range map[string]func(v uint64) uint64{
		"the high half":   func(v uint64) uint64 { return v & 0xffffffff },
		"the highest bit": func(v uint64) uint64 { return v &^ (1 << 63) },
		"the lowest bit":  func(v uint64) uint64 { return v &^ 1 },
		"a value of 0":    func(v uint64) uint64 { return max(v, 1) },
		"all ones":        func(v uint64) uint64 { return min(v, ^uint64(1)) },
	} {
		cfg := configOf(hostMap{stores: broken})
		cfg.NoShrink = true
		if f, _ := Find(cfg); f == nil {
			t.Errorf("%s: a map that loses it passes", name)
		}
	}
	seen, narrow := map[uint64]bool{}, typesOf[uint32, uint32]()
	for n := range uint64(1000) {
		seen[narrow.value(n)] = true
	}
	if len(seen) != 1000 || !seen[0] || !seen[1<<32-1] {
		t.Errorf("%d values of 1000, 0: %v, all ones: %v", len(seen), seen[0], seen[1<<32-1])
	}
}

// The replay command must quote the name of a test as a regular expression.
func TestReplay(t *testing.T) {
	if got, want := replay("TestX/a+b(c)", 7), `replay: go test . -run '^TestX$/^a\+b\(c\)$' -sim.seeds=1 -sim.seed=7`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An operation of a mixed batch must last from the first read of its key to the last write of its
// result.
func TestTimes(t *testing.T) {
	dev, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &submission[uint64, uint64]{watched: true, events: make([]event, 3)}
	if f.Keys, err = device.Make[uint64](dev, 3); err != nil {
		t.Fatal(err)
	}
	if f.OK, err = device.Make[bool](dev, 3); err != nil {
		t.Fatal(err)
	}
	r := &runner[uint64, uint64]{width: 8, submissions: []*submission[uint64, uint64]{f}}
	r.history.timed = true
	keys, ok := f.Keys.Ptr(), f.OK.Ptr()
	for _, a := range []sim.Access{
		{Addr: keys + 8, Size: 8}, {Addr: keys, Size: 8}, {Addr: keys + 8, Size: 8}, {Addr: ok + 1, Size: 1, Write: true},
		{Addr: keys - 8, Size: 8}, {Addr: ok + 1, Size: 1, Write: true}, {Addr: keys + 24, Size: 8}, {Addr: ok + 3, Size: 1, Write: true},
	} {
		r.watch(a)
	}
	if e := f.events; e[0].start != 2 || e[0].end != 0 || e[1].start != 1 || e[1].end != 6 || e[2].start != 0 {
		t.Errorf("times %+v", e)
	}
}
