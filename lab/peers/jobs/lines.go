package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/intern"
)

// text is lines one behind the other: line i is data from offsets[i] to offsets[i+1].
type text struct {
	data    []byte
	offsets []int64
}

func (t *text) len() int          { return len(t.offsets) - 1 }
func (t *text) line(i int) []byte { return t.data[t.offsets[i]:t.offsets[i+1]] }

// drawLines are n lines of some 60 bytes, like those of a log of requests, of so many.
func drawLines(n, most int, seed uint64) *text {
	rng := rand.New(rand.NewPCG(seed, uint64(most)))
	t := &text{offsets: []int64{0}}
	for range n {
		k := rng.Uint64N(uint64(most))
		t.data = fmt.Appendf(t.data, "GET /api/v1/items/%d?session=%016x HTTP/1.1", k, mix(k))
		t.offsets = append(t.offsets, int64(len(t.data)))
	}
	return t
}

// different are totals of nothing, one for each of n keys.
func different(n int) []total { return make([]total, n) }

// dedupMap keeps lines in a set of Go. It has copies, since who reads a file has lines only until the next ones come.
func dedupMap(t *text) []total {
	seen := make(map[string]struct{})
	for i := range t.len() {
		if line := t.line(i); !has(seen, line) {
			seen[string(line)] = struct{}{}
		}
	}
	return different(len(seen))
}

func has(seen map[string]struct{}, line []byte) bool {
	_, ok := seen[string(line)]
	return ok
}

// dedupMaps has a set for each part of the lines.
func dedupMaps(t *text, parts int) [][]total {
	rows := split(hashes(t), nil, parts)
	return byPart(parts, func(p int) []total {
		seen := make(map[string]struct{})
		for _, r := range rows[p] {
			if line := t.line(int(r.val)); !has(seen, line) {
				seen[string(line)] = struct{}{}
			}
		}
		return different(len(seen))
	})
}

// dedupSorting sorts each part of the lines, by their hashes first.
func dedupSorting(t *text, parts int) [][]total {
	rows := split(hashes(t), nil, parts)
	return byPart(parts, func(p int) []total {
		order := func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.key, b.key), bytes.Compare(t.line(int(a.val)), t.line(int(b.val))))
		}
		slices.SortFunc(rows[p], order)
		return different(len(slices.CompactFunc(rows[p], func(a, b entry) bool { return order(a, b) == 0 })))
	})
}

// hashes are those of lines, computed by all cores.
func hashes(t *text) []int64 {
	seed, out, n := maphash.MakeSeed(), make([]int64, t.len()), cores()
	var all sync.WaitGroup
	for c := range n {
		all.Go(func() {
			for i := len(out) * c / n; i < len(out)*(c+1)/n; i++ {
				out[i] = int64(maphash.Bytes(seed, t.line(i)))
			}
		})
	}
	all.Wait()
	return out
}

func weftDedup(dev *cpu.Device, j Job) Work {
	var n int
	return Work{
		Run: func() error {
			lines, err := column.OfOffsets(j.Lines.offsets, j.Lines.data)
			if err != nil {
				return err
			}
			seen, err := intern.New(dev, nil)
			if err != nil {
				return err
			}
			n, err = seen.Column(context.Background(), lines, make([]uint32, lines.Len()))
			return errors.Join(err, seen.Close())
		},
		Result: func() (Result, error) { return Result{Rows: n}, nil },
	}
}
