package experiment

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/workload"
)

// session runs requests on one index, batch by batch, and checks the results. Each value identifies
// the request that wrote it.
type session struct {
	*runner
	table   byteMap
	keySize int
	// ordered means that operations on the same key in a batch run in order. Otherwise a read may
	// see any concurrent write.
	ordered bool

	at     uint64   // number of requests so far
	past   []phase  // series of requests so far
	stamps []uint64 // indexed by record: stamp of the oldest write that a read may find
	batch  []workload.Request
	rows   []access
	kinds  []weft.OpKind
	keys   []byte
	vals   []byte
	ok     []bool
}

// phase is a series of requests that a session has run. from is the number of the first request.
type phase struct {
	from uint64
	of   *workload.Requests
}

// access is one row of a batch. A Modify request takes two rows.
type access struct {
	kind   weft.OpKind
	record uint64
	stamp  uint64 // stamp that a Put writes
}

func newSession(r *runner, table byteMap, keySize int, ordered bool) *session {
	return &session{runner: r, table: table, keySize: keySize, ordered: ordered}
}

func (s *session) load(ctx context.Context, n int) error {
	s.stamps = slices.Grow(s.stamps[:0], n)[:n]
	clear(s.stamps)
	for lo := 0; lo < n; lo += loadBatch {
		rows := s.begin(min(loadBatch, n-lo))
		for i := range rows {
			rows[i] = access{weft.OpPut, uint64(lo + i), 0}
		}
		s.fill()
		inserted, err := s.table.Put(ctx, s.keys, s.vals)
		if err != nil {
			return err
		}
		if inserted != len(rows) {
			return fmt.Errorf("%w: %d of %d new records were inserted", errWrong, inserted, len(rows))
		}
	}
	return nil
}

// loadBatch is the number of records per batch when load inserts records. Loading is not timed.
const loadBatch = 1 << 16

// begin makes the batch n rows long and returns the rows.
func (s *session) begin(n int) []access {
	s.rows = slices.Grow(s.rows[:0], n)[:n]
	return s.rows
}

func (s *session) fill() {
	n := len(s.rows)
	s.kinds, s.ok = slices.Grow(s.kinds[:0], n)[:n], slices.Grow(s.ok[:0], n)[:n]
	s.keys, s.vals = slices.Grow(s.keys[:0], n*s.keySize)[:n*s.keySize], slices.Grow(s.vals[:0], n*valueSize)[:n*valueSize]
	onCores(n, func(lo, hi int) {
		for i, op := range s.rows[lo:hi] {
			i += lo
			s.kinds[i] = op.kind
			workload.RecordKey(s.keys[i*s.keySize:(i+1)*s.keySize], s.Seed, op.record)
			if op.kind == weft.OpPut {
				workload.RecordValue(s.value(i), op.record, op.stamp)
			}
		}
	})
}

// onCores divides [0,n) into parts and runs them on all cores. It shortens untimed work.
func onCores(n int, part func(lo, hi int)) {
	const minPart = 1 << 9 // takes about 20 us
	cores := max(min(runtime.GOMAXPROCS(0), n/minPart), 1)
	var wg sync.WaitGroup
	for c := range cores {
		wg.Go(func() { part(c*n/cores, (c+1)*n/cores) })
	}
	wg.Wait()
}

func (s *session) value(i int) []byte { return s.vals[i*valueSize : (i+1)*valueSize] }

// run runs the next n requests in batches of the given size, and returns the time of each batch.
func (s *session) run(ctx context.Context, q *workload.Requests, n, batch int) ([]time.Duration, error) {
	return s.runFor(ctx, math.MaxInt64, q, n, batch)
}

// runBrief runs up to n requests within a time limit. It returns the time of each batch and the
// number of requests.
func (s *session) runBrief(ctx context.Context, q *workload.Requests, n, batch int) ([]time.Duration, int, error) {
	times, err := s.runFor(ctx, s.timeLimit(), q, s.brief(n, batch), batch)
	return times, min(s.brief(n, batch), len(times)*batch), err
}

// runFor acts as run, but starts no batch after the time limit.
func (s *session) runFor(ctx context.Context, timeLimit time.Duration, q *workload.Requests, n, batch int) ([]time.Duration, error) {
	var times []time.Duration
	s.past = append(s.past, phase{s.at, q})
	for lo := 0; lo < n && timeLimit > 0; lo += batch {
		s.translate(q, min(batch, n-lo))
		s.fill()
		start := time.Now()
		err := s.call(ctx)
		times = append(times, s.callTime(start))
		timeLimit -= times[len(times)-1]
		if err != nil {
			return nil, err
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		s.at += uint64(len(s.batch))
	}
	return times, nil
}

// callTime returns the time of the call that began at start.
func (s *session) callTime(start time.Time) time.Duration {
	if t, ok := s.table.(clocked); ok {
		return t.callTime()
	}
	return time.Since(start)
}

// translate makes the rows for the next n requests.
func (s *session) translate(q *workload.Requests, n int) {
	s.batch = slices.Grow(s.batch[:0], n)[:n]
	q.Fill(s.batch, s.at)
	s.rows = s.rows[:0]
	for i, request := range s.batch {
		stamp := s.at + uint64(i) + 1
		if request.Action == workload.Read || request.Action == workload.Modify {
			s.rows = append(s.rows, access{weft.OpGet, request.Record, 0})
		}
		if request.Action != workload.Read {
			s.rows = append(s.rows, access{weft.OpPut, request.Record, stamp})
		}
	}
}

// call runs the rows as one call: Get or Put if all rows have that kind, else Apply.
func (s *session) call(ctx context.Context) error {
	other := func(kind weft.OpKind) bool {
		return slices.ContainsFunc(s.rows, func(op access) bool { return op.kind != kind })
	}
	switch {
	case !other(weft.OpGet):
		_, err := s.table.Get(ctx, s.keys, s.vals, s.ok)
		return err
	case !other(weft.OpPut):
		inserted, err := s.table.Put(ctx, s.keys, s.vals)
		if want := s.fresh(); err == nil && inserted != want {
			err = fmt.Errorf("%w: %d records inserted, want %d", errWrong, inserted, want)
		}
		return err
	}
	return s.table.Apply(ctx, s.kinds, s.keys, s.vals, s.ok)
}

// fresh returns the number of requests in the batch that insert a record.
func (s *session) fresh() (n int) {
	for _, request := range s.batch {
		if request.Action == workload.Insert {
			n++
		}
	}
	return n
}

// check verifies that every read has found a write that it may see.
func (s *session) check() error {
	if s.ordered {
		return s.checkOrdered()
	}
	if i := s.firstWrong(func(i int) bool { return s.rows[i].kind == weft.OpGet && !s.plausible(i) }); i >= 0 {
		return s.wrong(i)
	}
	// backward, so that the first write of the batch remains
	for i := len(s.rows) - 1; i >= 0; i-- {
		if op := s.rows[i]; op.kind == weft.OpPut {
			s.wrote(op)
		}
	}
	return nil
}

// checkOrdered verifies the reads of an index that runs operations on the same key in order.
func (s *session) checkOrdered() error {
	finds := func(i int, stamp uint64) bool {
		return s.ok[i] && workload.IsRecordValue(s.value(i), s.rows[i].record, stamp)
	}
	if !slices.ContainsFunc(s.rows, func(op access) bool { return op.kind != weft.OpGet }) {
		if i := s.firstWrong(func(i int) bool { return !finds(i, s.stamps[s.rows[i].record]) }); i >= 0 {
			return s.wrong(i)
		}
		return nil
	}
	for i, op := range s.rows {
		if op.kind == weft.OpPut {
			s.wrote(op)
		} else if !finds(i, s.stamps[op.record]) {
			return s.wrong(i)
		}
	}
	return nil
}

// firstWrong returns the index of the first wrong row, or -1.
func (s *session) firstWrong(wrong func(i int) bool) int {
	first := atomic.Int64{}
	first.Store(int64(len(s.rows)))
	onCores(len(s.rows), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if !wrong(i) {
				continue
			}
			for was := first.Load(); int64(i) < was && !first.CompareAndSwap(was, int64(i)); was = first.Load() {
			}
			return
		}
	})
	if first.Load() == int64(len(s.rows)) {
		return -1
	}
	return int(first.Load())
}

// wrote records a write that later reads may find.
func (s *session) wrote(op access) {
	for uint64(len(s.stamps)) <= op.record {
		s.stamps = append(s.stamps, 0)
	}
	s.stamps[op.record] = op.stamp
}

// plausible reports whether row i, a read, has a possible result. The value must be complete, a
// request must have written it to that record, and it must not be too old. The read may find
// nothing only if a concurrent request inserts the record.
func (s *session) plausible(i int) bool {
	record := s.rows[i].record
	oldest, there := s.oldest(record)
	if !s.ok[i] {
		return !there
	}
	stamp := workload.RecordStamp(s.value(i), record)
	if !workload.IsRecordValue(s.value(i), record, stamp) || stamp < oldest || stamp > s.at+uint64(len(s.batch)) {
		return false
	}
	if stamp == 0 {
		return there
	}
	p := len(s.past) - 1
	for s.past[p].from > stamp-1 {
		p--
	}
	writer := s.past[p].of.At(stamp - 1)
	return writer.Record == record && writer.Action != workload.Read
}

// oldest returns the stamp of the oldest write of a record that a read may find. present reports
// whether the record was present before the batch.
func (s *session) oldest(record uint64) (stamp uint64, present bool) {
	if record >= uint64(len(s.stamps)) {
		return 0, false
	}
	return s.stamps[record], true
}

func (s *session) wrong(i int) error {
	op := s.rows[i]
	oldest, _ := s.oldest(op.record)
	return fmt.Errorf("%w: record %d: found %v, with the value of stamp %d, want %d",
		errWrong, op.record, s.ok[i], workload.RecordStamp(s.value(i), op.record), oldest)
}
