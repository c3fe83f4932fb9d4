package linear

import (
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
)

// constantsOf reads the constants of a C++ header whose values are plain
// numbers, or sentinels counted from the top.
func constantsOf(t *testing.T, file string) map[string]int {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`\b(k\w+) = (\d+)\s*[,;}]`).FindAllSubmatch(src, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		found[string(m[1])] = n
	}
	for _, m := range regexp.MustCompile(`static constexpr K (k\w+) = ~K\(0\)(?: - (\d))?;`).FindAllSubmatch(src, -1) {
		n, _ := strconv.Atoi(string(m[2])) // none is 0
		found[string(m[1])] = n
	}
	for _, m := range regexp.MustCompile(`enum Kind : uint32_t \{ ([\w, ]+) \};`).FindAllSubmatch(src, -1) {
		for i, name := range strings.Split(string(m[1]), ", ") {
			found[name] = i
		}
	}
	return found
}

// The constants of the kernels are those of Go.
func TestConstantsAreTwins(t *testing.T) {
	for file, want := range map[string]map[string]int{
		"layout.cuh": {
			"kLineBytes": lineBytes, "kSectorBytes": sectorBytes,
		},
		"../kernels/include/weft/slot.cuh": {
			"kEmpty": cpu.Empty, "kDead": cpu.Dead, "kPending": cpu.Pending,
		},
		"../kernels/include/weft/order.cuh": {
			"kReuse": int(batch.Reuse), "kContend": int(batch.Order),
			"kGet": int(weft.OpGet), "kPut": int(weft.OpPut), "kPutNew": int(weft.OpPutNew), "kDelete": int(weft.OpDelete), "kDeleteAll": int(weft.OpDeleteAll),
		},
		"tuning.cuh": {
			"kNarrowLanes": narrowLanes, "kWideLanes": wideLanes, "kBlock": gpu.BlockThreads,
		},
	} {
		got := constantsOf(t, file)
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s: %s is %d (%v), in Go it is %d", file, name, v, ok, n)
			}
		}
	}
}

// Every path visits each of its sectors exactly once, line by line from its
// home on, each line whole before the next.
func TestPathsVisitEverySectorOnce(t *testing.T) {
	for _, lines := range []uint32{1, 2, 3, 4, 5, 7, 64, 100, maxPath - 1, maxPath, maxPath + 1, 3 * maxPath} {
		table := cpuTable[uint64, uint64]{geometry: geometry{lines: lines}}
		table.end = table.path()
		homes := []uint32{0, 1, 2, 3, lines*lineSectors - 1, lines*lineSectors - 4, lines / 2 * lineSectors}
		for _, home := range homes {
			if want := min(lines, maxPath) * lineSectors; table.length(home) != want {
				t.Errorf("%d lines: a path has %d sectors, want %d", lines, table.length(home), want)
			}
			checkPath(t, &table, home)
		}
		// The extra line is a path of its own.
		for x := range uint32(lineSectors) {
			home := lines*lineSectors + x
			if table.length(home) != lineSectors {
				t.Errorf("%d lines: the extra line has %d sectors", lines, table.length(home))
			}
			checkPath(t, &table, home)
		}
	}
}

func checkPath(t *testing.T, table *cpuTable[uint64, uint64], home uint32) {
	t.Helper()
	seen := make(map[uint32]bool, table.length(home))
	extra := home/lineSectors == table.lines
	for o := range table.length(home) {
		s := table.next(home, o)
		line := (home/lineSectors + o/lineSectors) % table.lines
		if extra {
			line = table.lines
		}
		switch {
		case o == 0 && s != home:
			t.Fatalf("%d lines: the path from %d begins at %d", table.lines, home, s)
		case s/lineSectors != line:
			t.Fatalf("%d lines: step %d from %d is in line %d, want %d", table.lines, o, home, s/lineSectors, line)
		case seen[s]:
			t.Fatalf("%d lines: the path from %d visits sector %d twice", table.lines, home, s)
		case o%2 == 1 && s != table.next(home, o-1)^1:
			t.Fatalf("%d lines: sectors %d and %d of the path from %d are no aligned pair", table.lines, o-1, o, home)
		}
		seen[s] = true
	}
}

// The test's own description of the layout agrees with the engine's.
func TestImagePathIsTheEnginesPath(t *testing.T) {
	for _, lines := range []uint32{1, 2, 3, 7, 1000} {
		g := geometry{seed: 99, lines: lines}
		im := image{geometry: g, widths: batch.Widths{Key: 8, Val: 8, Slot: 16}}
		table := cpuTable[uint64, uint64]{geometry: g, end: g.path()}
		for _, key := range []uint64{0, 1, 12345, 1 << 40, ^uint64(0), ^uint64(1), ^uint64(2), ^uint64(3)} {
			h := home(g, key)
			step := 0
			for i := range im.path(isSentinel(key), cpu.Stored(key, lastSentinel)) {
				if want := int(table.next(h, uint32(step/2)))*2 + step%2; i != want {
					t.Fatalf("%d lines, key %#x: step %d is slot %d, want %d", lines, key, step, i, want)
				}
				step++
			}
			if want := int(table.length(h)) * 2; step != want {
				t.Fatalf("%d lines, key %#x: %d slots on the path, want %d", lines, key, step, want)
			}
		}
	}
}

// The hash and the home sector, worked out with integers of any size.
func TestHomeByLongArithmetic(t *testing.T) {
	shiftXor := func(x *big.Int, s uint) { x.Xor(x, new(big.Int).Rsh(x, s)) }
	times := func(x *big.Int, c string, width uint) {
		f, ok := new(big.Int).SetString(c, 16)
		if !ok {
			t.Fatal(c)
		}
		x.Mod(x.Mul(x, f), new(big.Int).Lsh(big.NewInt(1), width))
	}
	reduce := func(x *big.Int, n uint64, width uint) uint64 {
		return x.Rsh(x.Mul(x, new(big.Int).SetUint64(n)), width).Uint64()
	}
	for _, g := range []geometry{{0, 1}, {1, 3}, {0xfedcba9876543210, 1000}, {1 << 63, maxLines}} {
		for i := range uint64(200) {
			key := hash.Uint64(i, 17)
			x := new(big.Int).SetUint64(key ^ g.seed)
			shiftXor(x, 32)
			times(x, "e9846af9b1a615d", 64)
			shiftXor(x, 32)
			times(x, "e9846af9b1a615d", 64)
			shiftXor(x, 28)
			if want := reduce(x, uint64(g.lines)*lineSectors, 64); uint64(home(g, key)) != want {
				t.Fatalf("%+v: home of 64-bit key %#x is %d, want %d", g, key, home(g, key), want)
			}
			small := uint32(key)
			x = new(big.Int).SetUint64(uint64(small ^ uint32(g.seed)))
			shiftXor(x, 16)
			times(x, "21f0aaad", 32)
			shiftXor(x, 15)
			times(x, "d35a2d97", 32)
			shiftXor(x, 15)
			if want := reduce(x, uint64(g.lines)*lineSectors, 32); uint64(home(g, small)) != want {
				t.Fatalf("%+v: home of 32-bit key %#x is %d, want %d", g, small, home(g, small), want)
			}
		}
	}
}

// Keys that look like sentinels have homes and names apart from all others.
func TestSentinelsAreKeysToo(t *testing.T) {
	g := geometry{seed: 5, lines: 10}
	for i := range uint32(6) {
		key := ^i
		if got, want := home(g, key) == g.lines*lineSectors, i <= lastSentinel; got != want {
			t.Errorf("key %#x is in the extra line: %v", key, got)
		}
		want := key
		if i <= lastSentinel {
			want = i
		}
		if cpu.Stored(key, lastSentinel) != want {
			t.Errorf("key %#x is stored as %#x, want %#x", key, cpu.Stored(key, lastSentinel), want)
		}
	}
}

// linesFor gives the fewest lines within the load.
func TestLinesFor(t *testing.T) {
	for _, slotBytes := range []int{4, 8, 16} {
		per := lineBytes / slotBytes
		for _, load := range []float64{.01, .5, .7, .8, .97, 1} {
			for _, n := range []uint64{0, 1, 2, 31, 32, 33, 1000, 12345, 1 << 30} {
				lines, ok := linesFor(n, load, slotBytes)
				if !ok {
					if float64(n)/load/float64(per) <= maxLines {
						t.Errorf("%d keys at load %g: no table", n, load)
					}
					continue
				}
				slots := float64(lines) * float64(per) * load
				if slots < float64(n)*(1-1e-12) {
					t.Errorf("%d keys at load %g: %d lines are too few", n, load, lines)
				}
				if lines > 1 && slots-float64(per)*load > float64(n) {
					t.Errorf("%d keys at load %g: %d lines are too many", n, load, lines)
				}
			}
		}
	}
	if _, ok := linesFor(1<<40, .8, 16); ok {
		t.Error("2^40 keys fit the largest table")
	}
}
