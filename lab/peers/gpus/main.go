// Command gpus groups rows on all GPUs of this machine at the same time and merges the groups on
// the host (see group.Groups.MergeOn):
//
//	GOWORK=off go run ./peers/gpus -rows 1000000000 -groups 1000000
//
// It prints a line for one GPU, then for two, and so on. Rows are on the devices before the time
// starts; the time ends when the host has the result. Rates count the rows of all GPUs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/lab/internal/command"
)

func main() { command.Main("gpus", run) }

var aggregates = []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}

// gpu is a device with columns of rows.
type gpu struct {
	dev          device.Device
	stream       *device.Stream
	keys, values []column.On
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gpus", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rows := flags.Int("rows", 1_000_000_000, "rows on each GPU")
	groups := flags.Int("groups", 1_000_000, "different keys")
	runs := flags.Int("runs", 5, "runs; the best counts")
	kind := flags.String("device", "cuda", "devices: cuda, or cpu for a trial")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []*gpu
	for i := 0; ; i++ {
		name := *kind
		if name == "cuda" {
			name += ":" + strconv.Itoa(i)
		} else if i == 2 {
			break
		}
		dev, _, err := auto.Open(name)
		if err != nil {
			if i > 0 {
				break
			}
			return err
		}
		g, err := load(dev, i, *rows, *groups)
		if err != nil {
			return err
		}
		all = append(all, g)
	}
	host, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	for n := 1; n <= len(all); n++ {
		best, merge := time.Duration(1<<62), time.Duration(0)
		for range *runs {
			elapsed, merged, err := groupOnAll(host, all[:n], *rows, *groups)
			if err != nil {
				return err
			}
			if elapsed < best {
				best, merge = elapsed, merged
			}
		}
		rate := float64(n**rows) / best.Seconds() / 1e9
		fmt.Fprintf(stdout, "%d GPUs: %.1f ms, of them %.1f to merge; %.1f G rows/s, %.1f a GPU\n",
			n, ms(best), ms(merge), rate, rate/float64(n))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// load copies rows to a device. The key of row j on device i is a hash of j+i, modulo the number of
// groups.
func load(dev device.Device, i, rows, groups int) (*gpu, error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	g := &gpu{dev: dev, stream: s}
	for c := range 2 {
		on, err := device.Make[int64](dev, rows)
		if err != nil {
			return nil, err
		}
		const piece = 1 << 24
		for lo := 0; lo < rows; lo += piece {
			part := make([]int64, min(piece, rows-lo))
			for j := range part {
				if x := uint64(lo+j+i) * 0x9e3779b97f4a7c15; c == 0 {
					part[j] = int64(x>>20) % int64(groups)
				} else {
					part[j] = int64(lo+j) % 1000
				}
			}
			if err := on.Sub(lo, lo+len(part)).CopyFrom(s, part); err != nil {
				return nil, err
			}
			if err := s.Sync(context.Background()); err != nil {
				return nil, err
			}
		}
		if c == 0 {
			g.keys = onDevice(on)
		} else {
			g.values = onDevice(on)
		}
	}
	return g, nil
}

func onDevice(s device.Slice[int64]) []column.On { return []column.On{column.OfSlice(s)} }

// groupOnAll groups the rows of several devices. It returns the total time, and the time of merging
// after all devices have grouped their rows.
func groupOnAll(host device.Host, all []*gpu, rows, groups int) (elapsed, merged time.Duration, err error) {
	ctx := context.Background()
	total, err := group.New(host, aggregates, &group.Options{Capacity: groups})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, total.Close()) }()
	on := make([]*group.GroupsOn, len(all))
	for i, g := range all {
		if on[i], err = group.NewOn(g.dev, aggregates, &group.Options{Capacity: groups}); err != nil {
			return 0, 0, err
		}
		defer on[i].Close()
	}
	start := time.Now()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, g := range all {
		wait.Go(func() {
			errs[i] = errors.Join(on[i].AddOn(g.stream, g.keys, g.values), g.stream.Sync(ctx))
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	grouped := time.Since(start)
	for _, g := range on {
		if err := total.MergeOn(ctx, g); err != nil {
			return 0, 0, err
		}
	}
	r, err := total.Result(ctx)
	if err != nil {
		return 0, 0, err
	}
	elapsed = time.Since(start)
	n := int64(0)
	for _, count := range column.Values[int64](r.Values[0]) {
		n += count
	}
	if n != int64(rows*len(all)) {
		return 0, 0, fmt.Errorf("%d rows in groups, want %d", n, rows*len(all))
	}
	return elapsed, elapsed - grouped, nil
}
