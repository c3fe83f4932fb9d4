package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Job is a job on rows.
type Job struct {
	Name string
	// Does is group, words, distinct, dedup or join. words groups by two columns of strings.
	Does string
	// Batches is the number of calls in which weft receives the rows of a group.
	Batches int
	Rows    int
	Keys    int // number of distinct keys that rows draw from
	// draw makes the columns. Every call makes the same columns.
	draw   func() Columns
	number int // index among all jobs
	Columns
}

// Columns holds the rows of a job.
type Columns struct {
	// Left and Values are the columns to group. Left is also the column in which to count distinct
	// keys. Left and Right are the columns to join.
	Left, Values, Right []int64
	// Texts are two columns to group by, or one column to dedup.
	Texts []*text
}

// batches is the number of batches in which weft receives the rows of a job that groups in batches.
// A job that groups few rows has 1/batches of all rows.
const batches = 20

// Jobs returns all jobs on n rows, without their columns.
func Jobs(n int, sizes []int, seed uint64) (jobs []Job) {
	group := func(name string, n, keys int, keep func([]int64) []int64) {
		jobs = append(jobs, Job{Name: name, Does: "group", Batches: 1, Rows: n, Keys: keys,
			draw: func() Columns {
				return Columns{Left: keep(draw(n, keys, seed)), Values: draw(n, 1000, seed+1)}
			}})
	}
	group("group of keys 0, 1, 2, …", n, sizes[0], func(c []int64) []int64 { return c })
	for _, keys := range sizes {
		group("group", n, keys, scatter)
	}
	few := n / batches
	for _, keys := range []int{max(few/10, 1), few} {
		group("group of few rows", few, keys, scatter)
	}
	for _, keys := range []int{max(few/10, 1), few} {
		group("group in batches", n, keys, scatter)
		jobs[len(jobs)-1].Batches = batches
	}
	const seconds = 1000 // distinct strings in the second column
	for _, firsts := range []int{100, 1000} {
		jobs = append(jobs, Job{Name: "group of two strings", Does: "words", Rows: n / 4,
			Keys: firsts * seconds, draw: func() Columns {
				a, b := drawTexts(n/4, firsts, seed, word), drawTexts(n/4, seconds, seed+5, word)
				return Columns{Values: draw(n/4, 1000, seed+1), Texts: []*text{a, b}}
			}})
	}
	group("group of Zipf keys", n, 1_000_000, scatter)
	jobs[len(jobs)-1].draw = func() Columns {
		return Columns{Left: scatter(drawZipf(n, 1_000_000, seed)), Values: draw(n, 1000, seed+1)}
	}
	group("distinct", n, slices.Max(sizes), scatter)
	jobs[len(jobs)-1].Does = "distinct"
	keys := n / 5 // 10 M rows and 5 M rows with 4 M keys give 12.5 M pairs
	lines := n / 5
	jobs = append(jobs, Job{Name: "dedup", Does: "dedup", Rows: lines, Keys: lines / 2,
		draw: func() Columns {
			return Columns{Texts: []*text{drawTexts(lines, lines/2, seed+4, line)}}
		}})
	jobs = append(jobs, Job{Name: "join", Does: "join", Rows: n / 2, Keys: keys, draw: func() Columns {
		left, right := draw(n/2, keys, seed+2), draw(n/4, keys, seed+3)
		return Columns{Left: scatter(left), Right: scatter(right)}
	}})
	for i := range jobs {
		jobs[i].number = i
	}
	return jobs
}

// draw returns n random numbers below limit.
func draw(n, limit int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, uint64(limit)))
	c := make([]int64, n)
	for i := range c {
		c[i] = rng.Int64N(int64(limit))
	}
	return c
}

func numbered(n int) []int64 {
	c := make([]int64, n)
	for i := range c {
		c[i] = int64(i)
	}
	return c
}

// drawZipf returns n random numbers from 1 to limit. The probability of k is proportional to 1/k.
// It draws k with a probability proportional to log(1+1/k), and rejects a share of the draws.
func drawZipf(n, limit int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, uint64(limit)))
	c := make([]int64, 0, n)
	for len(c) < n {
		k := math.Floor(math.Pow(float64(limit+1), rng.Float64()))
		if rng.Float64()*k*math.Log1p(1/k) <= math.Ln2 {
			c = append(c, int64(k))
		}
	}
	return c
}

// scatter maps small numbers to distinct numbers that are far apart.
func scatter(c []int64) []int64 {
	for i := range c {
		c[i] = int64(mix(uint64(c[i])))
	}
	return c
}

// mix is a bijection that spreads keys: the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// text is a column of strings. String i is data[offsets[i]:offsets[i+1]].
type text struct {
	data    []byte
	offsets []int64
}

func (t *text) len() int        { return len(t.offsets) - 1 }
func (t *text) at(i int) []byte { return t.data[t.offsets[i]:t.offsets[i+1]] }

// drawTexts returns n strings, which add makes from random numbers below limit.
func drawTexts(n, limit int, seed uint64, add func(data []byte, k uint64) []byte) *text {
	t := &text{offsets: []int64{0}}
	for _, k := range draw(n, limit, seed) {
		t.data = add(t.data, uint64(k))
		t.offsets = append(t.offsets, int64(len(t.data)))
	}
	return t
}

// line appends a string of about 60 bytes, like those in a log of requests.
func line(data []byte, k uint64) []byte {
	return fmt.Appendf(data, "GET /api/v1/items/%d?session=%016x HTTP/1.1", k, mix(k))
}

// word appends a string of two to five bytes. k must be below 1000.
func word(data []byte, k uint64) []byte {
	return strconv.AppendUint(append(data, 'w'), k*(k+1), 36)
}
