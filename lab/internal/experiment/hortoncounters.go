package experiment

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

var hortonCountersExperiment = Experiment{
	Name:  "horton-counters",
	Title: "Horton and cuckoo tables: one launch of each lookup, for a profiler",
	GPU:   true,
	Doc: `For a profiler that counts what kernels move, beside what horton-fig12 computes: tables of 2^27 slots (1 GiB) of 32-bit keys and values,
of buckets of eight slots, at a load of .9: cuckoo with load balancing, cuckoo with first fit, horton. Of each, one launch
looks up 2^26 keys that are there (get_hit) and one as many that are not (get_miss), with values and flags as answers, so
nothing is warmed up and a rate is that of one run. B/op is what theory says: 64 bytes for each bucket, 4 for the key, 5 for
the answers; so sectors of 32 bytes are two for each bucket and .28 for the rest. The six launches, in the order of the rows:
  ncu --csv --kernel-name regex:get_of_eight_32_32 --launch-count 6 --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum weft-bench run horton-counters --device cuda
Each metric over n is to be compared with B/op, or with sectors.`,
	run: runHortonCounters,
}

// answerBytes is the size of a value and a flag.
const answerBytes = 5

func runHortonCounters(ctx context.Context, r *runner) (err error) {
	slots, err := r.keys(1<<20, 1<<27, 2*slabPair+1)
	if err != nil {
		return err
	}
	n := tableKeys(slabPair * slots)
	r.result.Parameters["keys"] = n
	limit := r.readLimit(slabPair)
	if err := r.limits(ctx, slabPair*slots, limit); err != nil {
		return err
	}
	s, err := newProbes(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	if err := s.draw(n); err != nil {
		return err
	}
	for _, on := range sizesKinds {
		k := on(r)
		if _, err := k.with(n, hortonSizesLoad, func(t subject[uint32, uint32]) error {
			s.structure, s.table = k.name, t
			return s.launches(ctx, n, limit)
		}); err != nil {
			return err
		}
	}
	return nil
}

// launches fills the table and makes one launch per kind of lookup.
func (s *probes) launches(ctx context.Context, n int, limit string) error {
	if err := s.fillWith(ctx, n); err != nil {
		return err
	}
	var row Row
	if err := s.table.describe(ctx, &row); err != nil {
		return err
	}
	for _, c := range []struct {
		op    string
		keys  device.Slice[uint32]
		hits  int
		reads float64
	}{{"get_hit", s.cols.hits, s.cols.n, row.Model.PerHit}, {"get_miss", s.cols.miss, 0, row.Model.PerMiss}} {
		s.begin(c.op)
		t, err := s.watch.Time(ctx, func() error { return s.table.get(s.stream, c.keys, s.cols.out, s.cols.flags) })
		if err != nil {
			return err
		}
		if err := checkFlags(ctx, s.runner, s.cols.flags, c.op, c.hits); err != nil {
			return err
		}
		s.report(c.op, s.cols.n, t, limit, Row{
			Slots: kindSlots, TableBytes: int(*row.BytesPerEntry*float64(n) + .5),
			BytesPerOp: figure(c.reads*bucketBytes + lookupBytes/2 + answerBytes), Measured: row.Measured, Model: row.Model,
		})
	}
	return nil
}
