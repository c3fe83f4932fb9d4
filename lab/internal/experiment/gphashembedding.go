package experiment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashEmbeddingExperiment = Experiment{
	Name:  "gphash-fig10-dlrm",
	Was:   "gphash-embedding",
	Title: "Embedding lookups over the persistent index",
	Doc: `A real workload, after the recommendation model of figure 10 of the GPHash paper: an index of 2^19 embedding vectors (2^20 on
a GPU) of 32 floats of 32 bits, by 64-bit ids of 26 features. A batch of samples, each of which has one id per feature, drawn by a Zipf
distribution of exponent .99 over the ids of the feature, is looked up in one call (get); embed is the same with the sum of the 26
vectors of each sample, on one core of the host, to which the vectors have come. n counts lookups; batch is that of lookups, and latency that of a batch. The ids
are drawn: the paper's click log, Criteo's, is not part of weft.` + peersDoc + hostMemory,
	run:   runGPHashEmbedding,
	plots: plotLatencies,
}

const (
	features = 26 // number of categorical features in Criteo's log
	floats   = valueSize / 4
)

func runGPHashEmbedding(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<19, 1<<20, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	per := max(n/features, 1)
	v, err := r.newRivals(8, loadBatch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	for _, p := range r.rivalsOn() {
		err := v.measure(p, 8, per*features, loadBatch, func(s *session, _ *gphash.Index) error {
			e := &embedding{session: s, structure: p.label(), per: per}
			r.step("gphash-fig10-dlrm: %s: loading", e.structure)
			if err := e.load(ctx); err != nil {
				return err
			}
			for _, samples := range []int{1 << 5, 1 << 8, 1 << 11} {
				if samples*features > n {
					break
				}
				if err := e.measure(ctx, samples, n/features/samples*samples); err != nil {
					return fmt.Errorf("batches of %d samples: %w", samples, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// embedding is a table of vectors. Its keys are ids of features.
type embedding struct {
	*session
	structure string
	per       int // number of ids per feature

	ids   []uint64 // indexed by sample and feature
	found []bool
	sums  []float32 // one vector per sample
}

// id returns an id. The upper 8 bits are the feature; the other bits take the place of a category's
// hash.
func (e *embedding) id(feature, number uint64) uint64 {
	return feature<<56 | workload.Key[uint64](e.Seed, feature*uint64(e.per)+number)>>8
}

// element returns float i of the vector of an id. It is a whole number, so that sums are exact.
func element(id uint64, i int) float32 { return float32((id>>(i%24) + uint64(i)) % 1024) }

func (e *embedding) rowsFor(n int) {
	e.ids, e.found = slices.Grow(e.ids[:0], n)[:n], slices.Grow(e.found[:0], n)[:n]
	e.keys, e.vals = slices.Grow(e.keys[:0], 8*n)[:8*n], slices.Grow(e.vals[:0], valueSize*n)[:valueSize*n]
}

func (e *embedding) load(ctx context.Context) error {
	n, there := e.per*features, 0
	for lo := 0; lo < n; lo += loadBatch {
		e.rowsFor(min(loadBatch, n-lo))
		for i := range e.ids {
			e.ids[i] = e.id(uint64(lo+i)%features, uint64(lo+i)/features)
			binary.LittleEndian.PutUint64(e.keys[8*i:], e.ids[i])
			for j := range floats {
				binary.LittleEndian.PutUint32(e.vals[i*valueSize+4*j:], math.Float32bits(element(e.ids[i], j)))
			}
		}
		inserted, err := e.table.Put(ctx, e.keys, e.vals)
		if err != nil {
			return err
		}
		there += inserted
	}
	if there != n {
		return fmt.Errorf("%w: %d vectors are there of %d", errWrong, there, n)
	}
	return nil
}

func (e *embedding) measure(ctx context.Context, batch, samples int) error {
	zipf, err := workload.NewZipf(uint64(e.per), zipfTheta)
	if err != nil {
		return err
	}
	order := workload.NewPermutation(uint64(e.per), e.Seed)
	var gets, embeds []time.Duration
	e.step("gphash-fig10-dlrm: %s: batches of %d samples", e.structure, batch)
	for at := 0; at < samples; at += batch {
		e.rowsFor(batch * features)
		for i := range e.ids {
			draw := workload.Key[uint64](e.Seed+3, uint64(at*features+i))
			e.ids[i] = e.id(uint64(i%features), order.At(zipf.Rank(draw)))
			binary.LittleEndian.PutUint64(e.keys[8*i:], e.ids[i])
		}
		e.sums = slices.Grow(e.sums[:0], batch*floats)[:batch*floats]
		start := time.Now()
		hits, err := e.table.Get(ctx, e.keys, e.vals, e.found)
		elapsed := e.callTime(start)
		if err != nil {
			return err
		}
		start = time.Now()
		e.sum()
		gets, embeds = append(gets, elapsed), append(embeds, elapsed+time.Since(start))
		if hits != len(e.ids) {
			return fmt.Errorf("%w: %d of %d vectors were found", errWrong, hits, len(e.ids))
		}
		if err := e.check(); err != nil {
			return err
		}
	}
	e.add(timed(e.structure, "get", 8, samples*features, batch*features, gets, e.poolRead()))
	e.add(timed(e.structure, "embed", 8, samples*features, batch*features, embeds, e.poolRead()))
	return nil
}

func (e *embedding) sum() {
	clear(e.sums)
	for i := range e.ids {
		sum := e.sums[i/features*floats:][:floats]
		vector := e.vals[i*valueSize:][:valueSize]
		for j := range sum {
			sum[j] += math.Float32frombits(binary.LittleEndian.Uint32(vector[4*j:]))
		}
	}
}

func (e *embedding) check() error {
	for s := range len(e.ids) / features {
		for j := range floats {
			want := float32(0)
			for _, id := range e.ids[s*features : (s+1)*features] {
				want += element(id, j)
			}
			if got := e.sums[s*floats+j]; got != want {
				return fmt.Errorf("%w: sample %d adds up to %g at %d, want %g", errWrong, s, got, j, want)
			}
		}
	}
	return nil
}
