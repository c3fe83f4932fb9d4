package main

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// goMap is what others are compared with.
const goMap = "Go map"

// Peers are all, the Go map first.
func Peers() []Peer {
	return []Peer{
		{Name: goMap, Load: ofMaps(1)},
		{Name: "partitioned Go maps", Load: ofMaps(64)},
		{Name: "partitioned sorting", Load: ofSorting},
		{Name: "weft", Load: ofWeft},
		duckDB(),
	}
}

// total is what a group has.
type total struct {
	count uint64
	sum   int64
}

func (r *Result) add(t total) {
	r.Rows++
	r.A += t.count
	r.B += uint64(t.sum)
	r.C += t.count * t.count
}

// pair is numbers of rows whose keys are equal.
type pair struct{ left, right uint32 }

func (r *Result) addPair(p pair) {
	r.Rows++
	r.A += uint64(p.left)
	r.B += uint64(p.right)
	r.C += uint64(p.left) * uint64(p.right)
}

// memory makes a peer of a function whose results are those of parts of the keys.
func memory[T any](job func() [][]T, tell func(*Result, T)) Work {
	var parts [][]T
	return Work{
		Run: func() error { parts = job(); return nil },
		Result: func() (r Result, err error) {
			for _, part := range parts {
				for _, x := range part {
					tell(&r, x)
				}
			}
			parts = nil
			return r, nil
		},
		Close: func() error { return nil },
	}
}

// entry is a row of a part: its key, and its value or number.
type entry struct{ key, val int64 }

// split deals rows out to parts by hash on all cores: each core counts and writes a range of the rows.
// vals are the numbers of the rows if there are none.
func split(keys, vals []int64, parts int) [][]entry {
	n, cores := len(keys), cores()
	shift := 64 - bits.Len(uint(parts-1))
	counts := make([][]int, cores)
	each := func(body func(core, lo, hi int)) {
		var all sync.WaitGroup
		for c := range cores {
			all.Go(func() { body(c, n*c/cores, n*(c+1)/cores) })
		}
		all.Wait()
	}
	each(func(core, lo, hi int) {
		counts[core] = make([]int, parts)
		for _, k := range keys[lo:hi] {
			counts[core][mix(uint64(k))>>shift]++
		}
	})
	rows, out, at := make([]entry, n), make([][]entry, parts), 0
	for p := range parts {
		first := at
		for c := range cores {
			at, counts[c][p] = at+counts[c][p], at
		}
		out[p] = rows[first:at]
	}
	each(func(core, lo, hi int) {
		next := counts[core]
		for i := lo; i < hi; i++ {
			p := mix(uint64(keys[i])) >> shift
			val := int64(i)
			if vals != nil {
				val = vals[i]
			}
			rows[next[p]] = entry{keys[i], val}
			next[p]++
		}
	})
	return out
}

// byPart runs body for each part, on all cores.
func byPart[T any](parts int, body func(part int) []T) [][]T {
	out, next := make([][]T, parts), make(chan int, parts)
	for p := range parts {
		next <- p
	}
	close(next)
	var all sync.WaitGroup
	for range cores() {
		all.Go(func() {
			for p := range next {
				out[p] = body(p)
			}
		})
	}
	all.Wait()
	return out
}

// whole is the only part of rows that are not split.
func whole(keys, vals []int64) [][]entry {
	rows := make([]entry, len(keys))
	for i, k := range keys {
		rows[i] = entry{k, int64(i)}
		if vals != nil {
			rows[i].val = vals[i]
		}
	}
	return [][]entry{rows}
}

// ofMaps are Go maps: one for all keys, on one core; or one for each part of them.
func ofMaps(parts int) func(j Job) (Work, error) {
	return func(j Job) (Work, error) {
		if j.Name == "join" {
			return memory(func() [][]pair { return joinMaps(j, parts) }, (*Result).addPair), nil
		}
		if parts == 1 {
			return memory(func() [][]total { return [][]total{groupColumns(j)} }, (*Result).add), nil
		}
		if j.Name == "dedup" {
			return memory(func() [][]total { return dedupMaps(j.Lines, parts) }, (*Result).add), nil
		}
		return memory(func() [][]total {
			rows := split(j.Left, j.Values, parts)
			return byPart(parts, func(p int) []total { return groupRows(rows[p], j.Name == "distinct") })
		}, (*Result).add), nil
	}
}

// groupColumns is the plain loop.
func groupColumns(j Job) []total {
	if j.Name == "dedup" {
		return dedupMap(j.Lines)
	}
	if j.Name == "distinct" {
		seen := make(map[int64]struct{})
		for _, k := range j.Left {
			seen[k] = struct{}{}
		}
		return make([]total, len(seen))
	}
	ids := make(map[int64]uint32) // a map to totals themselves would have two lookups a row, or a pointer each
	var totals []total
	for i, k := range j.Left {
		id, ok := ids[k]
		if !ok {
			id = uint32(len(totals))
			ids[k] = id
			totals = append(totals, total{})
		}
		t := &totals[id]
		t.count, t.sum = t.count+1, t.sum+j.Values[i]
	}
	return totals
}

func groupRows(rows []entry, distinct bool) []total {
	if distinct {
		seen := make(map[int64]struct{})
		for _, r := range rows {
			seen[r.key] = struct{}{}
		}
		return make([]total, len(seen))
	}
	ids := make(map[int64]uint32)
	var totals []total
	for _, r := range rows {
		id, ok := ids[r.key]
		if !ok {
			id = uint32(len(totals))
			ids[r.key] = id
			totals = append(totals, total{})
		}
		t := &totals[id]
		t.count, t.sum = t.count+1, t.sum+r.val
	}
	return totals
}

// joinMaps has the numbers of the right rows of each key in a list.
func joinMaps(j Job, parts int) [][]pair {
	left, right := whole(j.Left, nil), whole(j.Right, nil)
	if parts > 1 {
		left, right = split(j.Left, nil, parts), split(j.Right, nil, parts)
	}
	return byPart(parts, func(p int) (pairs []pair) {
		lists := make(map[int64][]uint32, len(right[p]))
		for _, r := range right[p] {
			lists[r.key] = append(lists[r.key], uint32(r.val))
		}
		for _, l := range left[p] {
			for _, row := range lists[l.key] {
				pairs = append(pairs, pair{uint32(l.val), row})
			}
		}
		return pairs
	})
}

// ofSorting sorts each part of the rows, in which equal keys are neighbors then.
func ofSorting(j Job) (Work, error) {
	const parts = 64
	sorted := func(rows []entry) []entry {
		slices.SortFunc(rows, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
		return rows
	}
	if j.Name == "join" {
		return memory(func() [][]pair {
			left, right := split(j.Left, nil, parts), split(j.Right, nil, parts)
			return byPart(parts, func(p int) []pair { return merge(sorted(left[p]), sorted(right[p])) })
		}, (*Result).addPair), nil
	}
	if j.Name == "dedup" {
		return memory(func() [][]total { return dedupSorting(j.Lines, parts) }, (*Result).add), nil
	}
	return memory(func() [][]total {
		rows := split(j.Left, j.Values, parts)
		return byPart(parts, func(p int) (totals []total) {
			for i, r := range sorted(rows[p]) {
				if i == 0 || r.key != rows[p][i-1].key {
					totals = append(totals, total{})
				}
				if t := &totals[len(totals)-1]; j.Name == "group" {
					t.count, t.sum = t.count+1, t.sum+r.val
				}
			}
			return totals
		})
	}, (*Result).add), nil
}

// merge pairs rows of sorted columns that have equal keys.
func merge(left, right []entry) (pairs []pair) {
	at := 0
	for _, l := range left {
		for at < len(right) && right[at].key < l.key {
			at++
		}
		for i := at; i < len(right) && right[i].key == l.key; i++ {
			pairs = append(pairs, pair{uint32(l.val), uint32(right[i].val)})
		}
	}
	return pairs
}
