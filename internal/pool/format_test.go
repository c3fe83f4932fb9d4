package pool

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// The format of version 1.1 does not change: the test has the offsets of the fields and the
// checksums of a sample.
func TestLayout(t *testing.T) {
	if size := binary.Size(wire{}); size != 1192 || size > sumsAt {
		t.Fatalf("a superblock has %d bytes", size)
	}
	_, mapped := newFormatted(t)
	b := mapped[copyB:]
	for at, want := range map[int]string{
		0: "57454654504f4f4c" + "0100" + "0100" + "00100000" + "04030201" + "01000000", 24: "000000000000000000000000",
		36: "00000000" + "0200000000000000", 48: "01020300000000000000000000000010", 64: "15cd853dfe9c9717", 72: "7765667420312e322e3300",
		104: "08000000" + "80000000" + "08000000" + "02000000" + "02000000" + "01000000" + "00020000" + "00000000" + "0700000000000000" + "0900000000000000",
		152: "0000420000000000" + "0500000000000000" + "0000000000000000", 176: "02000000" + "01000000",
		184: strings.Repeat("00", 24) + "0000400000000000" + "0020000000000000" + "01000000" + "00000000",
		952: "0000410000000000" + "0080000000000000" + "3930000000000000", 1144: "b007" + strings.Repeat("00", 14), 1160: strings.Repeat("00", sumsAt-1160),
	} {
		if is := hex.EncodeToString(b[at : at+len(want)/2]); is != want {
			t.Errorf("at %d: %s, want %s", at, is, want)
		}
	}
	if is, want := hex.EncodeToString(b[sumsAt:blockSize]), "1f2ff8be0000000044559adf7ac11c29"; is != want {
		t.Errorf("checksums %s, want %s", is, want)
	}
}

// If any bit of one copy flips, the other copy is used and stays unchanged. If the same bit flips
// in both copies, no pool is found.
func TestFlippedBits(t *testing.T) {
	p, mapped := newFormatted(t)
	if err := p.Commit(func(s *Superblock) { s.Epoch = 6 }); err != nil {
		t.Fatal(err)
	}
	want := [2]Superblock{p.Superblock(), p.Superblock()} // by damaged copy
	want[0].Epoch, want[0].Generation = 5, 2
	flip := func(copy, bit int) { mapped[copy*copyB+bit/8] ^= 1 << (bit % 8) }
	for bit := range blockSize * 8 {
		for copy := range 2 {
			flip(copy, bit)
			reopened, err := OpenMemory(p.Memory())
			if err != nil {
				t.Fatalf("copy %d, bit %d: %v", copy, bit, err)
			}
			if reopened.Superblock() != want[copy] || reopened.StaleCopyErr() == nil {
				t.Fatalf("copy %d, bit %d: found %+v, want %+v; the other copy: %v", copy, bit, reopened.Superblock(), want[copy], reopened.StaleCopyErr())
			}
			flip(copy, bit)
		}
		flip(0, bit)
		flip(1, bit)
		if _, err := OpenMemory(p.Memory()); !errors.Is(err, op.ErrCorrupt) {
			t.Fatalf("bit %d of both copies: %v", bit, err)
		}
		flip(0, bit)
		flip(1, bit)
	}
}

// Each checksum detects damage that the other one would miss.
func TestEachChecksum(t *testing.T) {
	for name, forge := range map[string]func(*block){
		"CRC":  func(b *block) { le.PutUint64(b[sumsAt+8:], b.mix()) },
		"mix":  func(b *block) { le.PutUint64(b[sumsAt:], uint64(b.crc())) },
		"gap":  func(b *block) { b[sumsAt+5] = 1; le.PutUint64(b[sumsAt+8:], b.mix()) },
		"none": nil,
	} {
		var b block
		s := sample()
		s.Generation = 1
		b.encode(s)
		if forge != nil {
			b[160]++
			if name == "gap" {
				b[160]--
			}
			forge(&b)
		}
		if _, err := b.parse(0); (err == nil) != (forge == nil) || err != nil && !errors.Is(err, op.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A commit replaces a damaged copy.
func TestDamageIsOverwritten(t *testing.T) {
	p, mapped := newFormatted(t)
	for i := range mapped[:blockSize] {
		mapped[i] = byte(i)
	}
	reopened, err := OpenMemory(p.Memory())
	if err != nil || reopened.StaleCopyErr() == nil {
		t.Fatalf("%v; the other copy: %v", err, reopened.StaleCopyErr())
	}
	if err := reopened.Commit(func(s *Superblock) { s.Epoch = 9 }); err != nil {
		t.Fatal(err)
	}
	last, err := OpenMemory(p.Memory())
	if err != nil || last.StaleCopyErr() != nil || reopened.StaleCopyErr() != nil || last.Superblock().Epoch != 9 {
		t.Fatalf("%v; the other copy: %v", err, last.StaleCopyErr())
	}
}

// A copy in the place of the other one is not valid, so that generations stay unique.
func TestMisplacedCopy(t *testing.T) {
	p, mapped := newFormatted(t)
	copy(mapped[:blockSize], mapped[copyB:])
	reopened, err := OpenMemory(p.Memory())
	if err != nil || reopened.Superblock().Generation != 2 || reopened.StaleCopyErr() == nil {
		t.Fatalf("%v, found %+v", err, reopened)
	}
	clear(mapped[copyB : copyB+blockSize])
	if _, err := OpenMemory(p.Memory()); !errors.Is(err, op.ErrCorrupt) {
		t.Fatalf("misplaced only: %v", err)
	}
}

// rewrite changes the newest copy of a formatted pool, B, and recomputes its checksums.
func rewrite(mapped []byte, change func(*wire), raw func(*block)) {
	b := (*block)(mapped[copyB:])
	var w wire
	if _, err := binary.Decode(b[:], le, &w); err != nil {
		panic(err)
	}
	if change != nil {
		change(&w)
	}
	if _, err := binary.Encode(b[:], le, &w); err != nil {
		panic(err)
	}
	if raw != nil {
		raw(b)
	}
	b.writeChecksums()
}

// hostile are superblocks with valid checksums and illegal contents. Their errors contain the
// reasons.
var hostile = map[string]struct {
	reason string
	is     error
	change func(*wire)
}{
	"future major":     {"format 2.1", ErrVersion, func(w *wire) { w.Major = 2 }},
	"no major":         {"format 0.1", ErrVersion, func(w *wire) { w.Major = 0 }},
	"incompatible":     {"features 0x80000000", ErrVersion, func(w *wire) { w.Features.Incompat = 1 << 31 }},
	"key size":         {"key size 4294967295", op.ErrCorrupt, func(w *wire) { w.Geometry.KeySize = math.MaxUint32 }},
	"keys":             {"key size 129", op.ErrCorrupt, func(w *wire) { w.Geometry.KeySize = 129 }},
	"no keys":          {"key size 0", op.ErrCorrupt, func(w *wire) { w.Geometry.KeySize = 0 }},
	"no records":       {"the pool has records, but neither is variable", op.ErrCorrupt, func(w *wire) { w.Features.Incompat = Records }},
	"value size":       {"value size 65537", op.ErrCorrupt, func(w *wire) { w.Geometry.ValueSize = 64<<10 + 1 }},
	"slots":            {"slots of a bucket 33", op.ErrCorrupt, func(w *wire) { w.Geometry.Slots = 33 }},
	"no slots":         {"slots of a bucket 0", op.ErrCorrupt, func(w *wire) { w.Geometry.Slots = 0 }},
	"hashes":           {"hash locations 1073741824", op.ErrCorrupt, func(w *wire) { w.Geometry.Hashes = 1 << 30 }},
	"shared levels":    {"levels 32", op.ErrCorrupt, func(w *wire) { w.Geometry.Levels = 32 }},
	"hash":             {"hash 3", op.ErrCorrupt, func(w *wire) { w.Geometry.HashID = 3 }},
	"larger":           {"truncated", op.ErrCorrupt, func(w *wire) { w.Size += Page }},
	"smaller":          {"more than the pool has", op.ErrCorrupt, func(w *wire) { w.Size -= Page }},
	"huge":             {"size 18446744073709547520", op.ErrCorrupt, func(w *wire) { w.Size = math.MaxUint64 - Page + 1 }},
	"odd size":         {"not a multiple", op.ErrCorrupt, func(w *wire) { w.Size-- }},
	"tool":             {"printable", op.ErrCorrupt, func(w *wire) { w.Tool[3] = 27 }},
	"hidden in tool":   {"printable", op.ErrCorrupt, func(w *wire) { w.Tool[31] = 'x' }},
	"epoch":            {"epoch 4611686018427387905", op.ErrCorrupt, func(w *wire) { w.Epoch = maxCount + 1 }},
	"generation":       {"beyond", op.ErrCorrupt, func(w *wire) { w.Generation = math.MaxUint64 - 1 }},
	"level in front":   {"level 1 at 4190208+8192: not between", op.ErrCorrupt, func(w *wire) { w.Levels[1].Offset -= Page }},
	"level at zero":    {"level 1 at 0+8192: not between", op.ErrCorrupt, func(w *wire) { w.Levels[1].Offset = 0 }},
	"level behind":     {"level 2 at 4325376+4096: not between", op.ErrCorrupt, func(w *wire) { w.Levels[2].Offset, w.Levels[2].Length = testSize, Page }},
	"level too long":   {"not between", op.ErrCorrupt, func(w *wire) { w.Levels[2].Length = testSize }},
	"length wraps":     {"not between", op.ErrCorrupt, func(w *wire) { w.Levels[2].Length = -w.Levels[2].Offset }},
	"offset wraps":     {"not between", op.ErrCorrupt, func(w *wire) { w.Levels[2].Offset = -w.Levels[2].Length }},
	"offset unaligned": {"not multiples", op.ErrCorrupt, func(w *wire) { w.Levels[2].Offset += 64 }},
	"length unaligned": {"not multiples", op.ErrCorrupt, func(w *wire) { w.Levels[2].Length -= 64 }},
	"overlap":          {"level 1 at 4194304+8192 and level 2 at 4198400+16384 overlap", op.ErrCorrupt, func(w *wire) { w.Levels[2].Offset -= Page }},
	"the same":         {"overlap", op.ErrCorrupt, func(w *wire) { w.Levels[2] = w.Levels[1] }},
	"all the same": {"overlap", op.ErrCorrupt, func(w *wire) {
		for i := range MaxLevels {
			w.Levels[i] = w.Levels[1]
		}
		w.Bottom, w.Top = 0, MaxLevels-1
	}},
	"overlaps an area": {"overlap", op.ErrCorrupt, func(w *wire) { w.Levels[2].Length = 15 * Page }},
	"area":             {"area 3 at 4292608+36864: not between", op.ErrCorrupt, func(w *wire) { w.Areas[3].Length += Page }},
	"areas":            {"overlap", op.ErrCorrupt, func(w *wire) { w.Areas[3].Offset -= Page }},
	"empty area":       {"not between", op.ErrCorrupt, func(w *wire) { w.Areas[3].Length = 0 }},
	"used":             {"area 0 at 4259840+32768: 32769 bytes used", op.ErrCorrupt, func(w *wire) { w.Areas[0].Used = 8*Page + 1 }},
	"level state":      {"state 3 (unknown)", op.ErrCorrupt, func(w *wire) { w.Levels[2].State = 3 }},
	"free, with place": {"free", op.ErrCorrupt, func(w *wire) { w.Levels[2].State = Free }},
	"free, elsewhere":  {"not between", op.ErrCorrupt, func(w *wire) { w.Levels[9].Offset = DataStart }},
	"live, nowhere":    {"level 3 at 0+0: live", op.ErrCorrupt, func(w *wire) { w.Levels[3].State = Live }},
	"a gap":            {"level 2: free while levels 1 to 3", op.ErrCorrupt, func(w *wire) { w.Levels[3], w.Levels[2], w.Top = w.Levels[2], Level{}, 3 }},
	"beyond the top":   {"level 2: live while levels 1 to 1", op.ErrCorrupt, func(w *wire) { w.Top = 1 }},
	"below the bottom": {"level 1: live while levels 2 to 2", op.ErrCorrupt, func(w *wire) { w.Bottom = 2 }},
	"upside down":      {"levels 2 to 1", op.ErrCorrupt, func(w *wire) { w.Bottom, w.Top = 2, 1 }},
	"top":              {"levels 1 to 4294967295", op.ErrCorrupt, func(w *wire) { w.Top = math.MaxUint32 }},
	"level 31":         {"levels 0 to 31: not in order", op.ErrCorrupt, func(w *wire) { useAllLevels(w); w.Top = 31 }},
	"no levels":        {"levels 2 to 1: not in order", op.ErrCorrupt, func(w *wire) { w.Levels, w.Bottom, w.Top = [32]Level{}, 2, 1 }},
	"draining above live": {"level 2: draining while", op.ErrCorrupt, func(w *wire) {
		w.Levels[2].State, w.Levels[3], w.Top = Draining, Level{Offset: DataStart + 8*Page, Length: Page, State: Live}, 3
	}},
	"draining on top": {"level 2: draining while", op.ErrCorrupt, func(w *wire) { w.Levels[1].State, w.Levels[2].State = Draining, Draining }},
	"draining below":  {"level 1: draining while", op.ErrCorrupt, func(w *wire) { w.Levels[1].State, w.Bottom = Draining, 2 }},
	"another truth":   {"canonical", op.ErrCorrupt, func(w *wire) { w.Clean = 2 }},
}

// useAllLevels makes all possible levels live, and one more.
func useAllLevels(w *wire) {
	for i := range w.Levels {
		w.Levels[i] = Level{Offset: DataStart + uint64(i)*Page, Length: Page, State: Live}
	}
	w.Areas, w.Bottom, w.Top = [8]Area{}, 0, MaxLevels-1
}

// Valid checksums do not make extents outside the pool legal, and the intact older copy is not used
// instead.
func TestHostile(t *testing.T) {
	for name, h := range hostile {
		p, mapped := newFormatted(t)
		rewrite(mapped, h.change, nil)
		if _, err := OpenMemory(p.Memory()); !errors.Is(err, h.is) || !strings.Contains(err.Error(), h.reason) {
			t.Errorf("%s: %v, want %v with %q", name, err, h.is, h.reason)
		}
	}
}

// If one copy is not a superblock at all, the other copy is used, and the error gives the reason.
func TestNoSuperblock(t *testing.T) {
	for reason, raw := range map[string]func(*block){
		"it begins with":    func(b *block) { b[7]++ },
		"other byte order":  func(b *block) { b[16], b[17], b[18], b[19] = b[19], b[18], b[17], b[16] },
		"8192 bytes":        func(b *block) { b[13] = 0x20 },
		"kind 2":            func(b *block) { b[20] = 2 },
		"generation 3 does": func(b *block) { b[40] = 3 },
		"generation 0 does": func(b *block) { b[40] = 0 },
		"all zero":          nil,
	} {
		p, mapped := newFormatted(t)
		rewrite(mapped, nil, raw)
		if raw == nil {
			clear(mapped[copyB : copyB+blockSize])
		}
		reopened, err := OpenMemory(p.Memory())
		if err != nil || reopened.Superblock().Generation != 1 || !strings.Contains(reopened.StaleCopyErr().Error(), reason) {
			t.Errorf("%v, want generation 1; the other copy: %v, want %q", err, reopened.StaleCopyErr(), reason)
		}
		clear(mapped[:blockSize])
		if _, err := OpenMemory(p.Memory()); !errors.Is(err, op.ErrFormat) || !strings.Contains(err.Error(), reason) {
			t.Errorf("both: %v, want %q", err, reason)
		}
	}
}

// Every gap is checked: each bit of the block has one legal value.
func TestCanonical(t *testing.T) {
	for _, at := range []int{132, 204, 184 + 24*31 + 20, 1192, 2000, sumsAt - 1} {
		p, mapped := newFormatted(t)
		rewrite(mapped, nil, func(b *block) { b[at] = 1 })
		if _, err := OpenMemory(p.Memory()); !errors.Is(err, op.ErrCorrupt) || !strings.Contains(err.Error(), "canonical") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// Pools of later minor versions open and keep the fields that this version does not support.
func TestLaterMinor(t *testing.T) {
	for name, change := range map[string]func(*wire){
		"minor": func(w *wire) { w.Minor = 3 }, "feature": func(w *wire) { w.Features.Compat = 4 },
	} {
		p, mapped := newFormatted(t)
		rewrite(mapped, change, func(b *block) { b[1192], b[sumsAt-1] = 17, 18 })
		reopened, err := OpenMemory(p.Memory())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 2 {
			if err := reopened.Commit(func(s *Superblock) { s.Epoch++ }); err != nil {
				t.Fatal(err)
			}
		}
		b := (*block)(mapped[copyB:])
		if b[1192] != 17 || b[sumsAt-1] != 18 || b[10] == 3 != (name == "minor") || b[24] != 0 != (name == "feature") {
			t.Errorf("%s: lost by Commit", name)
		}
		if last, err := OpenMemory(pm.New(mapped, nil)); err != nil || last.Superblock().Epoch != 7 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lowest levels may be draining, but not the top level.
func TestDraining(t *testing.T) {
	for draining := range 4 {
		s := sample()
		s.Levels[3], s.Top = Level{Offset: DataStart + 8*Page, Length: 8 * Page, State: Live}, 3
		for i := range draining {
			s.Levels[1+i].State = Draining
		}
		if err := s.Check(testSize); (err == nil) != (draining < 3) {
			t.Errorf("%d of 3 levels draining: %v", draining, err)
		}
	}
	for i, names := range [][]string{{"free", "none"}, {"live", "process"}, {"draining", "pmem"}} {
		if LevelState(i).String() != names[0] || Durability(i).String() != names[1] {
			t.Errorf("%d: %v, %v", i, LevelState(i), Durability(i))
		}
	}
}
