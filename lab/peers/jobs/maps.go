package main

import (
	"hash/maphash"
	"math/bits"
	"sync"
)

// weftName is the name of the peer that others are compared with.
const weftName = "weft"

// Peers returns all peers.
func Peers() []Peer {
	return []Peer{
		{Name: "Go map", Load: ofMaps(1)},
		{Name: "partitioned Go maps", Rival: true, Load: ofMaps(64)},
		{Name: weftName, Load: ofWeft},
		duckDB(),
		polars("Polars", "in-memory"),
		polars("Polars streaming", "streaming"),
	}
}

// total is the result for one group.
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

// pair is the numbers of two rows that have equal keys.
type pair struct{ left, right uint32 }

func (r *Result) addPair(p pair) {
	r.Rows++
	r.A += uint64(p.left)
	r.B += uint64(p.right)
	r.C += uint64(p.left) * uint64(p.right)
}

// memory returns the Work of a function that computes a result in Go memory. The function returns
// one slice per part of the keys.
func memory[T any](job func() [][]T, addTo func(*Result, T)) Work {
	var parts [][]T
	return Work{
		Run: func() error { parts = job(); return nil },
		Result: func() (r Result, err error) {
			for _, part := range parts {
				for _, x := range part {
					addTo(&r, x)
				}
			}
			parts = nil
			return r, nil
		},
		Close: func() error { return nil },
	}
}

// entry is a row of a part: its key, and its value or row number.
type entry struct{ key, val int64 }

// split distributes rows to parts by hash. Each core counts and writes a range of the rows. If vals
// is nil, entries have row numbers.
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

// ofMaps returns the Load function of a peer that uses Go maps. With one part it uses a single map
// on one core, otherwise a map per part on all cores.
func ofMaps(parts int) func(j Job) (Work, error) {
	return func(j Job) (Work, error) {
		if j.Does == "join" {
			return memory(func() [][]pair { return joinMaps(j, parts) }, (*Result).addPair), nil
		}
		if parts == 1 {
			return memory(func() [][]total { return [][]total{groupColumns(j)} }, (*Result).add), nil
		}
		return memory(func() [][]total {
			keys, vals := j.Left, j.Values
			if j.Texts != nil {
				keys, vals = hashes(j.Texts), nil // an entry has the number of a row
			}
			rows := split(keys, vals, parts)
			return byPart(parts, func(p int) []total { return groupRows(rows[p], j) })
		}, (*Result).add), nil
	}
}

// totals holds the totals of groups. Maps contain indices into it: a map of totals would need two
// lookups per row, or a pointer per group.
type totals []total

func (t *totals) create() (id uint32) {
	*t = append(*t, total{})
	return uint32(len(*t) - 1)
}

func (t totals) add(id uint32, val int64) {
	x := &t[id]
	x.count, x.sum = x.count+1, x.sum+val
}

// groupColumns groups all rows by a plain loop.
func groupColumns(j Job) (t totals) {
	switch j.Does {
	case "distinct":
		seen := make(map[int64]struct{})
		for _, k := range j.Left {
			seen[k] = struct{}{}
		}
		return make(totals, len(seen))
	case "dedup":
		seen := make(lineSet)
		for i := range j.Texts[0].len() {
			seen.add(j.Texts[0].at(i))
		}
		return make(totals, len(seen))
	case "words":
		ids := make(map[[2]string]uint32)
		for i, val := range j.Values {
			t.add(t.ofWords(ids, j.Texts, i), val)
		}
		return t
	}
	ids := make(map[int64]uint32)
	for i, k := range j.Left {
		id, ok := ids[k]
		if !ok {
			id = t.create()
			ids[k] = id
		}
		t.add(id, j.Values[i])
	}
	return t
}

func groupRows(rows []entry, j Job) (t totals) {
	switch j.Does {
	case "distinct":
		seen := make(map[int64]struct{})
		for _, r := range rows {
			seen[r.key] = struct{}{}
		}
		return make(totals, len(seen))
	case "dedup":
		seen := make(lineSet)
		for _, r := range rows {
			seen.add(j.Texts[0].at(int(r.val)))
		}
		return make(totals, len(seen))
	case "words":
		ids := make(map[[2]string]uint32)
		for _, r := range rows {
			t.add(t.ofWords(ids, j.Texts, int(r.val)), j.Values[r.val])
		}
		return t
	}
	ids := make(map[int64]uint32)
	for _, r := range rows {
		id, ok := ids[r.key]
		if !ok {
			id = t.create()
			ids[r.key] = id
		}
		t.add(id, r.val)
	}
	return t
}

// ofWords returns the index of a row's group. The map contains copies of the words, because a
// program that reads a file overwrites its buffer later.
func (t *totals) ofWords(ids map[[2]string]uint32, words []*text, row int) uint32 {
	a, b := words[0].at(row), words[1].at(row)
	id, ok := ids[[2]string{string(a), string(b)}] // does not allocate
	if !ok {
		id = t.create()
		ids[[2]string{string(a), string(b)}] = id
	}
	return id
}

// lineSet holds copies of lines.
type lineSet map[string]struct{}

func (s lineSet) add(line []byte) {
	if _, ok := s[string(line)]; !ok {
		s[string(line)] = struct{}{}
	}
}

// hashes returns the hashes of rows of strings, computed on all cores.
func hashes(texts []*text) []int64 {
	seed, out, n := maphash.MakeSeed(), make([]int64, texts[0].len()), cores()
	var all sync.WaitGroup
	for c := range n {
		all.Go(func() {
			for i := len(out) * c / n; i < len(out)*(c+1)/n; i++ {
				for _, t := range texts {
					out[i] = out[i]*31 + int64(maphash.Bytes(seed, t.at(i)))
				}
			}
		})
	}
	all.Wait()
	return out
}

// joinMaps joins rows. A map holds a list of right rows per key.
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
