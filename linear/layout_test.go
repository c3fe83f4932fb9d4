package linear

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/hash"
)

// The constants of the kernels must equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"../kernels/include/weft/linear_table.cuh": {
			"kSectorBytes": sectorBytes, "kNarrowLanes": narrowLanes, "kWideLanes": wideLanes,
		},
		"../kernels/include/weft/lines.cuh": {"kLineBytes": lineBytes},
		"../kernels/include/weft/slot.cuh": {
			"kEmpty": cpu.Empty, "kDead": cpu.Dead, "kPending": cpu.Pending,
		},
		"../kernels/include/weft/order.cuh": {
			"kReuse": int(batch.Reuse), "kContend": int(batch.Order),
			"kGet": int(weft.OpGet), "kPut": int(weft.OpPut), "kPutNew": int(weft.OpPutNew), "kDelete": int(weft.OpDelete), "kDeleteAll": int(weft.OpDeleteAll),
			"kSum": int(weft.OpSum), "kMin": int(weft.OpMin), "kMax": int(weft.OpMax), "kAnd": int(weft.OpAnd), "kOr": int(weft.OpOr),
			"kMulti": int(batch.Multi), "kSigned": int(batch.Signed), "kFloat": int(batch.Float), "kCached": gpu.Cached,
		},
		"../kernels/include/weft/gather.cuh": {"kWindow": gpu.GatherRows},
		"tuning.cuh": {
			"kBlock": gpu.BlockThreads, "kGetCachedBlocks": getCachedBlocks, "kChangeCachedBlocks": changeCachedBlocks,
		},
	})
}

// Every path must visit each of its sectors exactly once, line by line from its home, and all
// sectors of a line before the next line.
func TestPathsVisitEverySectorOnce(t *testing.T) {
	for _, lines := range []uint32{1, 2, 3, 4, 5, 7, 64, 100, maxPath - 1, maxPath, maxPath + 1, 3 * maxPath} {
		table := cpuTable[uint64, uint64]{geometry: geometry{lines: lines}}
		table.pathLines = table.maxPathLines()
		homes := []uint32{0, 1, 2, 3, lines*lineSectors - 1, lines*lineSectors - 4, lines / 2 * lineSectors}
		for _, home := range homes {
			if want := min(lines, maxPath) * lineSectors; table.pathLength(home) != want {
				t.Errorf("%d lines: a path has %d sectors, want %d", lines, table.pathLength(home), want)
			}
			checkPath(t, &table, home)
		}
		// The extra line has its own path.
		for x := range uint32(lineSectors) {
			home := lines*lineSectors + x
			if table.pathLength(home) != lineSectors {
				t.Errorf("%d lines: the extra line has %d sectors", lines, table.pathLength(home))
			}
			checkPath(t, &table, home)
		}
	}
}

func checkPath(t *testing.T, table *cpuTable[uint64, uint64], home uint32) {
	t.Helper()
	seen := make(map[uint32]bool, table.pathLength(home))
	extra := home/lineSectors == table.lines
	for o := range table.pathLength(home) {
		s := table.pathSector(home, o)
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
		case o%2 == 1 && s != table.pathSector(home, o-1)^1:
			t.Fatalf("%d lines: sectors %d and %d of the path from %d are no aligned pair", table.lines, o-1, o, home)
		}
		seen[s] = true
	}
}

// The description of the layout in the tests must agree with the engine's.
func TestImagePathIsTheEnginesPath(t *testing.T) {
	for _, lines := range []uint32{1, 2, 3, 7, 1000} {
		g := geometry{seed: 99, lines: lines}
		im := image{g, conformance.Memory{Slots: conformance.Slots{Widths: batch.Widths{Key: 8, Val: 8, Slot: 16}}}}
		table := cpuTable[uint64, uint64]{geometry: g, pathLines: g.maxPathLines()}
		for _, key := range []uint64{0, 1, 12345, 1 << 40, ^uint64(0), ^uint64(1), ^uint64(2), ^uint64(3)} {
			h := home(g, key)
			step := 0
			for i := range im.path(isSentinel(key), cpu.Stored(key, lastSentinel)) {
				if want := int(table.pathSector(h, uint32(step/2)))*2 + step%2; i != want {
					t.Fatalf("%d lines, key %#x: step %d is slot %d, want %d", lines, key, step, i, want)
				}
				step++
			}
			if want := int(table.pathLength(h)) * 2; step != want {
				t.Fatalf("%d lines, key %#x: %d slots on the path, want %d", lines, key, step, want)
			}
		}
	}
}

// The hash and the home sector must equal those computed with big integers.
func TestHomeByLongArithmetic(t *testing.T) {
	for _, g := range []geometry{{0, 1}, {1, 3}, {0xfedcba9876543210, 1000}, {1 << 63, maxLines}} {
		for i := range uint64(200) {
			key := hash.Uint64(i, 17)
			wide, narrow := conformance.Homes(key, g.seed, uint64(g.lines)*lineSectors)
			if got := uint64(home(g, key)); got != wide {
				t.Fatalf("%+v: home of 64-bit key %#x is %d, want %d", g, key, got, wide)
			}
			if got := uint64(home(g, uint32(key))); got != narrow {
				t.Fatalf("%+v: home of 32-bit key %#x is %d, want %d", g, uint32(key), got, narrow)
			}
		}
	}
}

// Keys that look like sentinels must have other homes and stored forms than all other keys.
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

// linesFor must return the smallest number of lines within the load.
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
				keys := func(lines uint32) float64 {
					slots := float64(lines) * float64(per)
					return min(slots*load, slots-max(float64(lines)-smallLines, 0)*float64(per)/float64(freeDivisor(per)))
				}
				if keys(lines) < float64(n)*(1-1e-12) {
					t.Errorf("%d keys at load %g: %d lines are too few", n, load, lines)
				}
				if lines > 1 && keys(lines-1) > float64(n)+1 {
					t.Errorf("%d keys at load %g: %d lines are too many", n, load, lines)
				}
			}
		}
	}
	if _, ok := linesFor(1<<40, .8, 16); ok {
		t.Error("2^40 keys fit the largest table")
	}
}
