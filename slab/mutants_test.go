package slab

import (
	"context"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutant is a way to break the kernels. It replaces a pattern wherever the pattern occurs in the
// PTX of the named kernels.
type mutant struct {
	name    string
	kernels string // regular expression for the start of their names, after "slab_"
	pattern string
	with    string
}

const (
	cas32   = `atom\.relaxed\.gpu\.global\.cas\.b32 (%r\d+), \[(%rd\d+)\], (%r\d+), (%r\d+);`
	cas64   = `atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), \[(%rd\d+)\], (%rd\d+), (%rd\d+);`
	or32    = `atom\.relaxed\.gpu\.global\.or\.b32 (%r\d+), \[(%rd\d+)\], (%r\d+);`
	and32   = `atom\.relaxed\.gpu\.global\.and\.b32 (%r\d+), \[(%rd\d+)\], (%r\d+);`
	add32   = `atom\.relaxed\.gpu\.global\.add\.u32 [^;]*;`
	add64   = `(?m)^\s*atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[(%rd\d+)\], (%rd\d+);`
	load128 = `ld\.relaxed\.gpu\.global\.b128 t, \[(%rd\d+)\]; mov\.b128 \{(%rd\d+), (%rd\d+)\}, t;`
	fill128 = `mov\.b128 t, \{(%rd\d+), (%rd\d+)\}; st\.relaxed\.gpu\.global\.b128 \[(%rd\d+)\], t;`
	cas128  = `mov\.b128 w, \{(%rd\d+), (%rd\d+)\}; mov\.b128 t, \{(%rd\d+), (%rd\d+)\}; ` +
		`atom\.relaxed\.gpu\.global\.cas\.b128 o, \[(%rd\d+)\], w, t; mov\.b128 \{(%rd\d+), (%rd\d+)\}, o;`
)

// emptied is the SlabHash race. The code that the paper's authors published marks a deleted slot as
// empty. So an insertion may take that slot while its key is further down the chain. In the kernels
// one constant changes: the key of a dead slot.
var emptied = mutant{"a deleted slot is empty", "(mixed_)?change_32_32", `or\.b64 (%rd\d+), (%rd\d+), -8589934592;`, "or.b64 $1, $2, -4294967296;"}

var mapMutants = []mutant{
	emptied,
	{"an insertion does not look behind the first free slot", "(mixed_)?change_32_32", `setp\.eq\.s32 (%p\d+), (%r\d+), -1;(\s+or\.pred)`, "setp.eq.s32 $1, $2, $2;$3"},
	{"a slab is linked by a store", "(mixed_)?change_32_32", cas32, "mov.b32 $1, $3; st.relaxed.gpu.global.b32 [$2], $4;"},
	{"a slab that lost the race for a link is kept", "(mixed_)?change_32_32", cas32, "atom.relaxed.gpu.global.cas.b32 $1, [$2], $3, $4; mov.b32 $1, $3;"},
	{"a slab that lost the race for a link is lost", "(mixed_)?change_32_32", and32, "mov.b32 $1, $3;"},
	{"a slot is changed without compare and swap", "(mixed_)?change_32_32", cas64, "ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
	{"a lost compare and swap counts as won", "(mixed_)?change_32_32", cas64, "atom.relaxed.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
	{"a vote of the next tile counts", "(mixed_)?change_32_32", `and\.b32 (%r\d+), (%r\d+), 15;`, "and.b32 $1, $2, 31;"},
	{"the last lane of a tile has no vote", "get_32_32", `and\.b32 (%r\d+), (%r\d+), 15;`, "and.b32 $1, $2, 7;"},
	{"a slab is read by weak loads", "(mixed_)?change_32_32", load128, "ld.global.v2.b64 {$2, $3}, [$1];"},
	{"keys are counted without atomics", "(mixed_)?change_32_32", add64, "{ .reg .b64 t; ld.relaxed.gpu.global.u64 $1, [$2]; add.u64 t, $1, $3; st.relaxed.gpu.global.u64 [$2], t; }"},
	{"a slab that a flush frees keeps what it holds", "flush_32_32", fill128, ""},
	{"a slab that a flush empties is not freed", "flush_32_32", and32, ""},
	{"a flush moves on to the next slab a slot too late", "flush_32_32", `setp\.gt\.u32 (%p\d+), (%r\d+), 15;`, "setp.gt.u32 $1, $2, 16;"},
	{"a flush leaves the chain as long as it was", "flush_32_32", `st\.relaxed\.gpu\.global\.b32 \[(%rd\d+)\], (%r\d+);`, ""},
	{"a rehash forgets where a chain goes on", "rehash_32_32", `ld\.relaxed\.gpu\.global\.b32 (%r\d+), \[(%rd\d+)\];`, "mov.b32 $1, -1;"},
}

// tightMutants are found by schedules with a single free unit, so that warps contend for its bit.
var tightMutants = []mutant{
	{"a unit is taken without looking whether it is free", "(mixed_)?change_32_32", or32, "atom.relaxed.gpu.global.or.b32 $1, [$2], $3; mov.b32 $1, 0;"},
}

var multiMutants = []mutant{
	{"the tail is noted where the link is", "multi_change_32_32", `add\.s64 (%rd\d+), (%rd\d+), 120;`, "add.s64 $1, $2, 124;"},
	{"a pair counts as removed whoever did it", "multi_change_32_32", cas64, "atom.relaxed.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
	{"a lookup finds the last lane's pair first", "multi_get_32_32", `brev\.b32 t, (%r\d+); clz\.b32 (%r\d+), t;`, "clz.b32 t, $1; sub.u32 $2, 31, t;"},
	{"pairs are listed lane by lane, whatever the order", "multi_collect_32_32", `and\.b32 (%r\d+), (%r\d+), (%r\d+);`, "and.b32 $1, $2, 0;"},
	{"a flush keeps the hint to a slab that it frees", "flush_32_32", `add\.s64 (%rd\d+), (%rd\d+), 120;`, "add.s64 $1, $2, 124;"},
}

var wideMutants = []mutant{
	{"a pair is read in two halves", "get_64_64|(mixed_)?change_64_64", load128, "ld.relaxed.gpu.global.b64 $2, [$1]; ld.relaxed.gpu.global.b64 $3, [$1+8];"},
	{"the key is published before the value", "(mixed_)?change_64_64", cas128,
		"atom.relaxed.gpu.global.cas.b64 $7, [$5+8], $2, $4; st.relaxed.gpu.global.b64 [$5], $3; mov.b64 $6, $1;"},
}

// pendingMutants break the kernels for compute capability 8.0.
var pendingMutants = []mutant{
	{"a pending pair is published in two stores", "(mixed_)?change_64_64", fill128, "st.relaxed.gpu.global.b64 [$3+8], $2; st.relaxed.gpu.global.b64 [$3], $1;"},
	{"a pair is taken without looking at who holds it", "(mixed_)?change_64_64", cas64, "ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
}

// roomMutants are found by kernel tests. They break what is written, counted and listed on
// overflow, or if a column is left out.
var roomMutants = []mutant{
	{"a rehash does not count the pairs without room", "rehash_32_32", add32, ""},
	{"the list of operations without room is not written", "(mixed_)?change_32_32", `(?s)(.*)st\.global\.u32 [^;]*;`, "$1;"},
	{"operations without room are counted by each block for itself", "(mixed_)?change_32_32", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"flags are written where there is no column of them", "(mixed_)?change_32_32",
		`@%p\d+ bra \$\w+;(\s+setp[^@]*?st\.global\.cs\.u8)`, "$1"},
}

var multiRoomMutants = []mutant{
	{"a rehash does not count the pairs without room", "rehash_32_32", add32, ""},
	{"the list of operations without room is not written", "multi_change_32_32", `(?s)(.*)st\.global\.u32 [^;]*;`, "$1;"},
	{"values are written behind the rows", "multi_collect_32_32", `setp\.ge\.u64 (%p\d+), (%rd\d+), (%rd\d+);(\s+@%p\d+ bra [^;]*;\s+cvt)`, "setp.ne.u64 $1, $2, $2;$4"},
	{"a value is written behind the rows", "multi_collect_32_32", `setp\.ge\.u64 (%p\d+), (%rd\d+), (%rd\d+);(\s+@%p\d+ bra [^;]*;\s+cvt)`, "setp.gt.u64 $1, $2, $3;$4"},
}

// TestMutantsFailKernelTests checks that the kernel tests find the mutants that no program of
// package dst finds.
func TestMutantsFailKernelTests(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	w := batch.Widths{Key: 4, Val: 4, Slot: 8}
	for _, group := range []struct {
		name    string
		mutants []mutant
		tests   []mutate.KernelTest
	}{
		{"map", roomMutants, kernelTests[uint32, uint32](w, false)},
		{"multimap", multiRoomMutants, kernelTests[uint32, uint32](w, true)},
	} {
		for _, m := range group.mutants {
			t.Run(group.name+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				quick, random := mutate.DeviceTrials(90, 1, group.tests)
				mutate.RequireDetected(t, slices.Concat(random, quick), m.rewrite(t))
			})
		}
	}
}

// reduceMutants lose combined values.
var reduceMutants = []mutant{
	{"a sum is stored without compare and swap", "(mixed_)?change_32_32", cas64, "ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
	{"a sum goes to a key that dies", "(mixed_)?change_32_32", cas64, "atom.relaxed.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
}

// TestMutantsAreFound checks that a hundred schedules find each mutant. Most mutants need only a
// few.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels for half a minute")
	}
	maps := schedules[uint32, uint32](mode{arch: 90})
	maps.First = 24 // a program with many flushes, which is rare
	findAll(t, mapMutants, maps)
	findAll(t, tightMutants, schedules[uint32, uint32](mode{arch: 90, tight: true}))
	findAll(t, multiMutants, multiSchedules[uint32, uint32](mode{arch: 90}))
	findAll(t, wideMutants, schedules[uint64, uint64](mode{arch: 90}))
	findAll(t, reduceMutants, schedules[uint32, uint32](mode{arch: 90}).Reducing())
	findAll(t, pendingMutants, schedules[uint64, uint64](mode{arch: 80}))
}

func findAll[K weft.Key, V weft.Value](t *testing.T, mutants []mutant, cfg dst.Config[K, V]) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Rewrite = m.rewrite(t)
			find(t, cfg)
		})
	}
}

func find[K weft.Key, V weft.Value](t *testing.T, cfg dst.Config[K, V]) {
	cfg.NoShrink, cfg.Seeds = true, 120 // the lucky schedules change with the host's calls
	f, tried := dst.Find(cfg)
	if f == nil {
		t.Fatalf("not found by %v", tried)
	}
	t.Logf("found by program %d: %v", tried.Programs, f.Err)
}

func (m mutant) rewrite(t *testing.T) func(file, ptx string) string {
	return mutate.Replace(t, m.kernels, m.pattern, m.with)
}

// reusing reuses dead slots even in batches that delete.
type reusing struct{ engine }

func (e reusing) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	part := *b
	part.Flags |= batch.Reuse
	return e.engine.Change(ctx, s, &part)
}

// CountPresent implements core.Presenter.
func (e reusing) CountPresent(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error) {
	return e.engine.(core.Presenter).CountPresent(ctx, s, b)
}

// TestReuseBesideDeletesIsFound checks that schedules detect an engine that reuses dead slots while
// keys are deleted. There two threads may put one key into different slots.
func TestReuseBesideDeletesIsFound(t *testing.T) {
	t.Parallel()
	cfg := schedules[uint32, uint32](mode{arch: 90})
	open := cfg.New
	cfg.New = func(dev device.Device, s dst.Shape) (dst.Subject[uint32, uint32], error) {
		x, err := open(dev, s)
		if err == nil {
			t := x.(scheduled[uint32, uint32]).table
			t.run(reusing{t.policy.engine})
		}
		return x, err
	}
	find(t, cfg)
}

// TestSlabHashDuplicate shows the SlabHash race step by step, and under a schedule. With the mutant
// a key is stored twice, with the shipped kernels once.
func TestSlabHashDuplicate(t *testing.T) {
	conformance.SkipRaced(t, "interprets kernels")
	for name, rewrite := range map[string]func(file, ptx string) string{"ours": nil, "SlabHash's": emptied.rewrite(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			later, raced := 0, 0
			for seed := range uint64(20) {
				later += copies(t, sim.Options{Seed: seed, Scheduler: sim.Random, Rewrite: rewrite}, false)
				raced += copies(t, sim.Options{Seed: seed, Scheduler: sim.Random, Rewrite: rewrite}, true)
			}
			t.Logf("of 20 keys put again after a delete there are %d, beside a delete %d", later, raced)
			if ours := later == 20 && raced == 20; ours != (rewrite == nil) {
				t.Errorf("of 20 keys put again there are %d; beside a delete %d", later, raced)
			}
			if rewrite != nil && (raced == 20 || raced == 40) {
				t.Errorf("it is no race: %d of 20", raced)
			}
		})
	}
}

// copies deletes the first key of a chain and puts the last key again, afterwards or in the same
// batch. It returns how often the last key is stored.
func copies(t *testing.T, opts sim.Options, beside bool) (n int) {
	dev, err := sim.Open(&opts)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := New[uint32, uint32](dev, &Options{Buckets: 1, MaxTombstones: -1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint32, 40)
	for i := range keys {
		keys[i] = uint32(i)
	}
	for _, part := range [][]uint32{keys[:1], keys[1:39], keys[39:]} {
		if _, err := m.Put(t.Context(), part, part); err != nil {
			t.Fatal(err)
		}
	}
	// Four neighboring operations run one after the other, so the two operations are not neighbors.
	ops := make([]weft.Op[uint32, uint32], 6)
	for i := range ops {
		ops[i].Key = uint32(i)
	}
	ops[0] = weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: 0}
	ops[5] = weft.Op[uint32, uint32]{Kind: weft.OpPut, Key: 39, Value: 1}
	if !beside {
		if err := m.Apply(t.Context(), ops[:1], nil); err != nil {
			t.Fatal(err)
		}
		ops = ops[5:]
	}
	if err := m.Apply(t.Context(), ops, nil); err != nil {
		t.Fatal(err)
	}
	for k := range m.All() {
		if k == 39 {
			n++
		}
	}
	return n
}
