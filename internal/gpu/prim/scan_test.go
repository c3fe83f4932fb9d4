package prim

import (
	"slices"
	"testing"
)

// counts returns numbers with sums of more than 32 bits.
func counts(r *rig, n int) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = r.rng.Uint32() >> r.rng.IntN(32)
	}
	return v
}

// runScan scans counts. skip is the number of elements between an aligned address and the first
// count.
func runScan[S word](r *rig, in []uint32, skip int) {
	r.Helper()
	want := make([]S, len(in)+1)
	for i, v := range in {
		want[i+1] = want[i] + S(v)
	}
	from, to := upload(r, append(make([]uint32, skip), in...)), results[S](r, skip+len(want))
	o := &Scan{N: len(in), Width: width[S](), Counts: from.Sub(skip, skip+len(in)).Ptr(), Offsets: to.Sub(skip, skip+len(want)).Ptr()}
	scratch := r.scratch(o.ScratchBytes())
	r.must(r.prim.Scan(r.stream, o, scratch))
	if got := download(r, to)[skip:]; !slices.Equal(got, want) {
		i := slices.IndexFunc(got, func(v S) bool { return v != want[slices.Index(got, v)] })
		r.Fatalf("scan of %d counts, %d behind an aligned address: differs at %d", len(in), skip, i)
	}
	if got := download(r, from)[skip:]; !slices.Equal(got, in) {
		r.Fatal("the counts have changed")
	}
	r.release(scratch)
}

// around returns sizes around a warp's row and tiles.
func around(tile int) []int {
	return []int{0, 1, 31, 32, 33, 127, 128, 129, tile - 1, tile, tile + 1, 4*tile + 77}
}

func TestScan(t *testing.T) {
	r := onGPU(t)
	for skip := range 3 {
		for _, n := range around(scanTiles[4]) {
			runScan[uint32](r, counts(r, n), skip)
		}
		for _, n := range around(scanTiles[8]) {
			runScan[uint64](r, counts(r, n), skip)
		}
	}
	// looks back at more tiles than a warp has lanes
	runScan[uint64](r, counts(r, 70*scanTiles[8]), 0)
}

// Offsets may overwrite the counts.
func TestScanInPlace(t *testing.T) {
	r := onGPU(t)
	in := counts(r, 2*scanTiles[4]+9)
	want := make([]uint32, len(in)+1)
	for i, v := range in {
		want[i+1] = want[i] + v
	}
	column := upload(r, append(in, 0))
	o := &Scan{N: len(in), Width: 4, Counts: column.Ptr(), Offsets: column.Ptr()}
	scratch := r.scratch(o.ScratchBytes())
	r.must(r.prim.Scan(r.stream, o, scratch))
	if !slices.Equal(download(r, column), want) {
		r.Fatal("wrong offsets")
	}
	r.release(scratch)
}

// A tile adds up the sums of the tiles before it, back to the last tile that has published a total.
// Any number of tiles may lie between.
func TestLookBack(t *testing.T) {
	const ofTile, upTo = 1 << 62, 2 << 62
	r := onGPU(t)
	for _, tile := range []int{1, 31, 32, 33, 64, 65, 100} {
		for _, known := range []int{0, tile / 2, tile - 1} {
			status, sum := make([]uint64, tile+1), uint64(1000)
			for i := range tile {
				status[i] = ofTile | uint64(i)
				if i == known {
					status[i] = upTo | sum
				} else if i > known {
					sum += uint64(i)
				}
			}
			n := tile*scanTiles[8] + 1
			in, words, next, out := results[uint32](r, n), upload(r, status), upload(r, []uint32{uint32(tile)}), results[uint64](r, n+1)
			r.must(launch(r.prim, r.stream, &scanImage, "scan_64", 1, scanThreads, &scanParams{
				counts: in.Ptr(), offsets: out.Ptr(), status: words.Ptr(), next: next.Ptr(), n: uint32(n),
			}))
			if got := download(r, out)[n-1:]; got[0] != sum || got[1] != sum {
				t.Errorf("tile %d finds %d before it and %d with it, want %d; tile %d knows its sum", tile, got[0], got[1], sum, known)
			}
			r.must(in.Free())
			r.must(words.Free())
			r.must(next.Free())
		}
	}
}

// runGroup sorts keys and groups them.
func runGroup[K word](r *rig, in []K, distinct bool) {
	r.Helper()
	slices.Sort(in)
	var want []uint32
	var wantKeys []K
	for i, k := range in {
		if i == 0 || k != in[i-1] {
			want, wantKeys = append(want, uint32(i)), append(wantKeys, k)
		}
	}
	n := len(in)
	keys, offsets, count, once := upload(r, in), results[uint32](r, len(want)+1), results[uint32](r, 1), results[K](r, len(want))
	o := &Group{N: n, Key: width[K](), Keys: keys.Ptr(), Offsets: offsets.Ptr(), Count: count.Ptr()}
	if distinct {
		o.Distinct = once.Ptr()
	}
	scratch := r.scratch(o.ScratchBytes())
	r.must(r.prim.Group(r.stream, o, scratch))
	if got := download(r, count)[0]; int(got) != len(want) {
		r.Fatalf("%d segments of %d keys, want %d", got, n, len(want))
	}
	if !slices.Equal(download(r, offsets), append(want, uint32(n))) {
		r.Fatalf("wrong offsets of %d keys", n)
	}
	if got := download(r, once); distinct && !slices.Equal(got, wantKeys) {
		r.Fatalf("wrong keys of %d", n)
	}
	r.must(keys.Free())
	r.release(scratch)
}

func TestGroup(t *testing.T) {
	r := onGPU(t)
	for i, like := range likes {
		for _, n := range around(headTiles[4]) {
			runGroup(r, keysLike[uint32](r, like, n), i%2 == 0)
		}
		for _, n := range around(headTiles[8]) {
			runGroup(r, keysLike[uint64](r, like, n), i%2 == 1)
		}
	}
}

// Sort and Group find the rows of a batch that have equal keys, with row numbers implicit and in
// memory. Duplicates are resolved in this way.
func TestGroupOfBatch(t *testing.T) {
	r := onGPU(t)
	const n = 20000
	in := make([]uint64, n)
	first, last := make(map[uint64]uint32), make(map[uint64]uint32)
	for i := range in {
		in[i] = r.rng.Uint64N(3000) * 0x9e3779b97f4a7c15
		if _, ok := first[in[i]]; !ok {
			first[in[i]] = uint32(i)
		}
		last[in[i]] = uint32(i)
	}
	keys, sorted, order := upload(r, in), results[uint64](r, n), results[uint32](r, n)
	offsets, count := results[uint32](r, n+1), results[uint32](r, 1)
	sort := &Sort{Widths: Widths{8, 4}, N: n, Hi: 64, From: Rows{Keys: keys.Ptr()}, To: Rows{sorted.Ptr(), order.Ptr()}}
	group := &Group{N: n, Key: 8, Keys: sorted.Ptr(), Offsets: offsets.Ptr(), Count: count.Ptr()}
	scratch := r.scratch(max(sort.ScratchBytes(), group.ScratchBytes()))
	r.must(r.prim.Sort(r.stream, sort, scratch))
	r.must(r.prim.Group(r.stream, group, scratch))
	rows, at := download(r, order), download(r, offsets)
	if got := int(download(r, count)[0]); got != len(first) {
		t.Fatalf("%d keys, want %d", got, len(first))
	}
	for i := range len(first) {
		k := in[rows[at[i]]]
		if f, l := rows[at[i]], rows[at[i+1]-1]; f != first[k] || l != last[k] {
			t.Fatalf("rows %d to %d have key %#x, want %d to %d", f, l, k, first[k], last[k])
		}
	}
	r.must(keys.Free())
	r.must(sorted.Free())
	r.release(scratch)
}
