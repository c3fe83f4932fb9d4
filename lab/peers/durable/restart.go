package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/command"
	"github.com/weftgo/weft/linear"
)

// Restart is the result of opening a durable map, and of its checkpoint.
type Restart struct {
	Pairs int   `json:"pairs"`
	Bytes int64 `json:"bytes"` // size of a checkpoint and a log
	// OpenS and ReadS are the seconds of Open, and of reading the files plainly. On Linux, all
	// files are evicted from memory before either.
	OpenS float64 `json:"open_s"`
	ReadS float64 `json:"read_s"`
	// CheckpointS is the seconds of a checkpoint that replaces checkpoint and log.
	CheckpointS float64 `json:"checkpoint_s"`
	// AloneS and DuringS are the seconds of the slowest Put of a batch without a checkpoint, and
	// during one, with a log that the system syncs.
	AloneS  float64 `json:"alone_s"`
	DuringS float64 `json:"during_s"`
	// PutS and LoadS are the seconds of putting the pairs into a map with room for all, and of
	// loading them from a file in memory.
	PutS  float64 `json:"put_s"`
	LoadS float64 `json:"load_s"`
	// Rest and Peak are bytes on the disk over bytes of pairs: after the checkpoint and Close, and
	// at the peak during the checkpoint.
	Rest float64 `json:"rest"`
	Peak float64 `json:"peak"`
}

// measureRestart makes a store of pairs in a checkpoint and updates in a log, and opens it.
func measureRestart(ctx context.Context, at Place, pairs int, logBytes int64, z sizes) (r Restart, err error) {
	dir, err := os.MkdirTemp(at.Dir, "weft-durable-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kind := StoreKind{New: func(dir string, _ int) (Store, error) {
		// no checkpoint by itself
		return openMap(dir, &durable.Options{Sync: durable.OS, LogLimit: 1 << 50})
	}}
	c := client{kind: kind, dir: dir, seed: z.seed, valueSize: 8}
	defer func() { err = errors.Join(err, c.close()) }()
	const batch = 1 << 16
	checkpoint := func() error { return durable.Checkpoint(ctx, c.store.(mapStore).m) }
	if err = c.open(); err == nil {
		_, err = c.run(ctx, jobPut, pairs, batch)
	}
	if err == nil {
		err = checkpoint()
	}
	if err == nil {
		_, err = c.run(ctx, jobUpdate, int(logBytes)/(keySize+8), batch)
	}
	var opens, reads []float64
	store := filepath.Join(dir, "store")
	for i := 0; i < z.runs && err == nil; i++ {
		var open, read float64
		if err = c.close(); err == nil {
			r.Bytes = folderBytes(store)
			read, err = timeCold(store, func() error { return eachFile(store, readFile) })
		}
		if err == nil {
			open, err = timeCold(store, c.open)
		}
		if err == nil {
			err = c.check(ctx, batch)
		}
		opens, reads = append(opens, open), append(reads, read)
	}
	if err != nil {
		return r, err
	}
	r.Pairs, r.OpenS, r.ReadS = pairs, command.Median(opens), command.Median(reads)
	start := time.Now()
	peak, err := peakDuring(store, checkpoint)
	r.CheckpointS = time.Since(start).Seconds()
	err = errors.Join(err, c.close())
	ofPairs := float64(pairs * (keySize + 8))
	r.Peak, r.Rest = float64(peak)/ofPairs, float64(folderBytes(store))/ofPairs
	if err == nil {
		err = c.open()
	}
	if err == nil {
		r.AloneS, r.DuringS, err = measureWaits(ctx, &c, checkpoint, z.batch)
	}
	if err == nil {
		r.PutS, r.LoadS, err = measureLoad(ctx, &c, batch)
	}
	return r, err
}

// measureWaits returns the seconds of the slowest Put: of some, and of those during a checkpoint.
func measureWaits(ctx context.Context, c *client, checkpoint func() error, batch int) (alone, during float64, err error) {
	slowest := func(until <-chan error) (s float64, err error) {
		for n := 0; ; n++ {
			select {
			case err := <-until:
				return s, err
			default:
			}
			if until == nil && n == 1000 {
				return s, nil
			}
			times, err := c.run(ctx, jobUpdate, batch, batch)
			if err != nil {
				return s, err
			}
			s = max(s, times[0].Seconds())
		}
	}
	if alone, err = slowest(nil); err != nil {
		return alone, 0, err
	}
	done := make(chan error)
	go func() { done <- checkpoint() }()
	during, err = slowest(done)
	return alone, during, err
}

// measureLoad returns the seconds of putting all pairs of a map into an empty one with room for
// them, and of loading them from a saved file.
func measureLoad(ctx context.Context, c *client, perBatch int) (put, load float64, err error) {
	from, pairs := c.store.(mapStore), len(c.stamps)
	var file bytes.Buffer
	file.Grow(pairs*(keySize+8) + 1<<20)
	if _, err := from.m.Save(ctx, &file); err != nil {
		return 0, 0, err
	}
	all := make([]byte, pairs*keySize)
	for i := range pairs {
		workload.RecordKey(key(all, i), c.seed, uint64(i))
	}
	keys := batch.View[uint64](all)
	onEmpty := func(f func(m *linear.Map[uint64, uint64]) error) (seconds float64, err error) {
		m, err := linear.New[uint64, uint64](from.dev, &linear.Options{Capacity: pairs})
		if err != nil {
			return 0, err
		}
		start := time.Now()
		err = f(m)
		seconds = time.Since(start).Seconds()
		if err == nil && m.Len() != pairs {
			err = fmt.Errorf("%d pairs, want %d", m.Len(), pairs)
		}
		return seconds, errors.Join(err, m.Close())
	}
	put, err = onEmpty(func(m *linear.Map[uint64, uint64]) error {
		for i := 0; i < pairs; i += perBatch {
			j := min(i+perBatch, pairs)
			if _, err := m.Put(ctx, keys[i:j], keys[i:j]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return put, 0, err
	}
	load, err = onEmpty(func(m *linear.Map[uint64, uint64]) error {
		_, err := m.Load(ctx, &file)
		return err
	})
	return put, load, err
}

// timeCold times f after evicting the files of a folder from memory.
func timeCold(dir string, f func() error) (seconds float64, err error) {
	err = eachFile(dir, evict)
	start := time.Now()
	if err == nil {
		err = f()
	}
	return time.Since(start).Seconds(), err
}

// eachFile calls f for the files of a folder. Files may vanish meanwhile.
func eachFile(dir string, f func(*os.File) error) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		file, ferr := os.Open(filepath.Join(dir, e.Name()))
		if ferr == nil {
			ferr = errors.Join(f(file), file.Close())
		}
		if !errors.Is(ferr, os.ErrNotExist) {
			err = errors.Join(err, ferr)
		}
	}
	return err
}

func readFile(f *os.File) error {
	_, err := io.Copy(struct{ io.Writer }{io.Discard}, f)
	return err
}

func folderBytes(dir string) (sum int64) {
	eachFile(dir, func(f *os.File) error {
		info, err := f.Stat()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum
}

// peakDuring calls f and returns the largest size of a folder meanwhile.
func peakDuring(dir string, f func() error) (peak int64, err error) {
	done := make(chan error)
	go func() { done <- f() }()
	for {
		peak = max(peak, folderBytes(dir))
		select {
		case err := <-done:
			return peak, err
		case <-time.After(time.Millisecond):
		}
	}
}

func (r Restart) table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "pairs\tMB\topen s\tMB/s\tread s\tMB/s\tread/open\tcheckpoint s\tspace at rest\tat the peak\tslowest Put ms\tin a checkpoint\tPut s\tLoad s\tPut/Load\t")
	mb := float64(r.Bytes) / 1e6
	fmt.Fprintf(tw, "%d\t%.0f\t%.2f\t%.0f\t%.2f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t\n",
		r.Pairs, mb, r.OpenS, mb/r.OpenS, r.ReadS, mb/r.ReadS, r.ReadS/r.OpenS, r.CheckpointS, r.Rest, r.Peak,
		r.AloneS*1e3, r.DuringS*1e3, r.PutS, r.LoadS, r.PutS/r.LoadS)
	return tw.Flush()
}
