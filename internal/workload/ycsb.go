package workload

import (
	"errors"
	"fmt"
)

// Mix is a workload of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC
// 2010, table 2): the shares of its operations, and the distribution of the records they request.
type Mix struct {
	Name string
	// Read, Update and Modify are the shares of operations that do not insert. Modify reads a
	// record and then updates it.
	Read, Update, Modify float64
	// InsertEvery is the number of operations per insertion; 0 disables insertions.
	InsertEvery uint64
	// Latest favors recent records: the newer a record, the more often it is requested. Without it,
	// popularity does not depend on age.
	Latest bool
}

// Mixes are the core workloads except E, which scans ranges, and the load phase.
var Mixes = []Mix{
	{Name: "A", Read: .5, Update: .5},
	{Name: "B", Read: .95, Update: .05},
	{Name: "C", Read: 1},
	{Name: "D", Read: 1, InsertEvery: 20, Latest: true},
	{Name: "F", Read: .5, Modify: .5},
	{Name: "LOAD", InsertEvery: 1},
}

// Action is the effect of an operation on a record.
type Action uint8

// The actions.
const (
	Read Action = iota
	Update
	Modify // Read, and then Update
	Insert
)

// Request is an operation on one record. Records are numbered 0, 1, 2, … in the order of their
// insertion.
type Request struct {
	Action Action
	Record uint64
}

// Requests are the operations of a mix, indexed by number.
type Requests struct {
	mix     Mix
	records uint64
	seed    uint64
	zipf    *Zipf // nil: all records alike
	order   Permutation
}

// NewRequests returns requests to a table with the records [0, records). The record of rank r is
// requested in proportion to 1/(r+1)^theta. YCSB's theta is .99; 0 is uniform. The ranks cover the
// first records only: insertions do not flatten the distribution, and Latest requests only the
// newest that many.
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

// Indices of the random draws of a request.
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

// Fill fills dst with the requests from first on.
func (q *Requests) Fill(dst []Request, first uint64) {
	fill(dst, func(i uint64) Request { return q.At(first + i) })
}

// Inserts returns the number of insertions among the first i requests. Each InsertEvery requests
// have one.
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
