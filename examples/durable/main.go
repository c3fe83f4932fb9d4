// Durable counts the numbers in its input, one per line, in a pool that outlives the process.
// Killed at any time and restarted with the same input, it continues where it stopped. Every line
// is counted exactly once.
//
//	go run ./examples/durable /dev/shm/visits <visits.txt
//
// This works because batches are atomic: the batch that adds to the counts also adds to the number
// of counted lines. The program needs no saving, logging or replaying. Pools require Linux.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strconv"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
)

const (
	batch = 1000
	// lines is the key of the number of counted lines. No visit has this key.
	lines = ^uint64(0)
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: durable POOL <visits.txt")
	}
	if err := durable(context.Background(), os.Args[1], os.Stdin, os.Stdout); err != nil {
		log.Fatal("durable: ", err)
	}
}

func durable(ctx context.Context, path string, r io.Reader, w io.Writer) (err error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	counts, err := open(ctx, path, dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close()) }()

	done, err := value(ctx, counts, lines)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "from line", done)
	var keys, ones []uint64
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		done += uint64(len(keys))
		// The batch adds one for each line, and the number of lines.
		_, err := counts.Reduce(ctx, append(keys, lines), append(ones, uint64(len(keys))), weft.Sum)
		keys, ones = keys[:0], ones[:0]
		if err == nil {
			_, err = fmt.Fprintln(w, "counted", done) // and so it stays, whatever happens now
		}
		return err
	}
	in := bufio.NewScanner(r)
	for n := uint64(0); in.Scan(); n++ {
		if n < done {
			continue // counted before
		}
		visit, err := strconv.ParseUint(in.Text(), 10, 64)
		if err != nil || visit == lines {
			return fmt.Errorf("line %d: %q is not a number below 2^64-1", n+1, in.Text())
		}
		if keys, ones = append(keys, visit), append(ones, 1); len(keys) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(in.Err(), flush()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, max(counts.Len()-1, 0), "different numbers")
	return err
}

// open opens a pool, or creates it.
func open(ctx context.Context, path string, dev device.Device) (*gphash.Map[uint64, uint64], error) {
	m, report, err := gphash.OpenMap[uint64, uint64](ctx, path, dev, gphash.OpenOptions{})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gphash.CreateMap[uint64, uint64](path, dev, gphash.Options{Capacity: 100_000, AtomicBatch: batch + 1})
	case err == nil && (report.Replayed > 0 || report.Torn):
		log.Printf("killed in a batch: %d applied now, another one not there: %v", report.Replayed, report.Torn)
	}
	return m, err
}

// value returns the value of a key, 0 if it is absent.
func value(ctx context.Context, m *gphash.Map[uint64, uint64], key uint64) (uint64, error) {
	values := make([]uint64, 1)
	_, err := m.Get(ctx, []uint64{key}, values, nil)
	return values[0], err
}
