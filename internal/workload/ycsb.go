package workload

import (
	"errors"
	"fmt"
)

// Mix is a workload of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC
// 2010, table 2). It holds the shares of operations and the distribution of requested records.
type Mix struct {
	Name string
	// Read, Update and Modify are the shares of these actions among the operations that do not
	// insert. Modify reads a record and then updates it.
	Read, Update, Modify float64
	// InsertEvery is the number of operations per insertion. 0 means no insertions.
	InsertEvery uint64
	// Latest makes recent records popular: the newer a record, the more often it is requested.
	// Without Latest, popularity does not depend on age.
	Latest bool
}

// Mixes are YCSB's load phase and its core workloads except E, which scans ranges.
var Mixes = []Mix{
	{Name: "A", Read: .5, Update: .5},
	{Name: "B", Read: .95, Update: .05},
	{Name: "C", Read: 1},
	{Name: "D", Read: 1, InsertEvery: 20, Latest: true},
	{Name: "F", Read: .5, Modify: .5},
	{Name: "LOAD", InsertEvery: 1},
}

// Action is what an operation does to a record.
type Action uint8

// These are the actions.
const (
	Read Action = iota
	Update
	Modify // a Read and then an Update
	Insert
)

// Request is an operation on one record. Record numbers 0, 1, 2, … follow the order of insertion.
type Request struct {
	Action Action
	Record uint64
}

// Requests is the sequence of operations of a mix.
type Requests struct {
	mix     Mix
	records uint64
	seed    uint64
	zipf    *Zipf // nil if all records are equally likely
	order   Permutation
}

// NewRequests returns requests to a table that has the records [0, records). The record of rank r
// is requested in proportion to 1/(r+1)^theta. YCSB's theta is .99; 0 selects a uniform
// distribution. The number of ranks is always records, so insertions do not flatten the
// distribution. With Latest, only the newest records are requested, as many as there are ranks.
func NewRequests(mix Mix, records uint64, theta float64, seed uint64) (*Requests, error) {
	q := &Requests{mix: mix, records: records, seed: seed}
	if mix.InsertEvery == 1 {
		return q, nil
	}
	if records == 0 {
		return nil, errors.New("workload: requests to a table without records")
	}
	if s := mix.Read + mix.Update + mix.Modify; s < 1-1e-9 || s > 1+1e-9 {
		return nil, fmt.Errorf("workload: mix %s: shares of reads, updates and modifications add up to %g", mix.Name, s)
	}
	q.order = NewPermutation(records, seed)
	if theta == 0 {
		return q, nil
	}
	var err error
	q.zipf, err = NewZipf(records, theta)
	return q, err
}

// These numbers select the random draws of a request.
const (
	drawRank = iota + 1
	drawAction
	drawInsert
)

// At returns request i.
func (q *Requests) At(i uint64) Request {
	before := q.Inserts(i)
	if q.Inserts(i+1) > before {
		return Request{Insert, q.records + before}
	}
	rank := q.rank(Random(q.seed+drawRank, i))
	if q.mix.Latest {
		return Request{Read, q.records + before - 1 - rank}
	}
	return Request{q.action(Random(q.seed+drawAction, i)), q.order.At(rank)}
}

// Fill fills dst with consecutive requests, beginning with request first.
func (q *Requests) Fill(dst []Request, first uint64) {
	fill(dst, func(i uint64) Request { return q.At(first + i) })
}

// Inserts returns the number of insertions among the first i requests. Every InsertEvery
// consecutive requests, counted from 0, contain one.
func (q *Requests) Inserts(i uint64) uint64 {
	every := q.mix.InsertEvery
	if every == 0 {
		return 0
	}
	n := i / every
	if Below(Random(q.seed+drawInsert, n), every) < i%every {
		n++
	}
	return n
}

func (q *Requests) rank(draw uint64) uint64 {
	if q.zipf == nil {
		return Below(draw, q.records)
	}
	return q.zipf.Rank(draw)
}

func (q *Requests) action(draw uint64) Action {
	switch u := float64(draw>>11) / (1 << 53); {
	case u < q.mix.Read:
		return Read
	case u < q.mix.Read+q.mix.Update:
		return Update
	}
	return Modify
}
