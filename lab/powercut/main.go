//go:build linux

// Command powercut cuts the power of a real file system under a durable store. It needs Linux,
// root, FUSE, loop devices and mkfs.ext4.
//
//	GOWORK=off go run ./powercut -cuts 1000 -seed 1
//	GOWORK=off go run ./powercut -os # must show losses
//
// The disk is a file of a FUSE server, which logs writes and flushes. On that disk is ext4, and in
// it a store that changes at random. Then powercut makes the disks that a power cut may leave. A
// cut keeps all writes before the last flush. Each later write is whole, lost, or torn between
// sectors. On each of these disks, ext4 must mount and the store must open. It must hold all
// changes that had returned. A change that had not returned is there as a whole or not at all.
// Then the store changes again. Some cuts hit such a recovery.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() {
	if os.Getenv(guestEnv) != "" {
		os.Exit(beGuest())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command.Main("powercut", func(args []string, stdout, stderr io.Writer) error {
		return run(ctx, args, stdout, stderr)
	})
}

// errLoss reports that the table has losses.
var errLoss = errors.New("stores have lost changes, see above")

// cutsOfStore is the number of power cuts of a store, until the next store begins.
const cutsOfStore = 100

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := &trial{stderr: stderr, shown: time.Now(), hash: maphash.MakeSeed()}
	flags := flag.NewFlagSet("powercut", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cuts := flags.Int("cuts", 100, "power cuts")
	changes := flags.Int("changes", 300, "changes of each store")
	seed := flags.Uint64("seed", 1, "seed of changes and cuts; even so, no two runs are the same")
	osSync := flags.Bool("os", false, "sync as durable.OS does, which must show losses")
	flags.StringVar(&t.save, "save", "", "folder for the disk images that show a loss")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *cuts < 2 || *changes < 1 {
		return fmt.Errorf("-cuts %d: want at least 2; -changes %d: want at least 1", *cuts, *changes)
	}
	if err := available(); err != nil {
		return err
	}
	t.rng = rand.New(rand.NewPCG(*seed, 0))
	tallies := []*tally{newTally("map"), newTally("ordered map")}
	for i, done := 0, 0; done < *cuts; i++ {
		n := min(cutsOfStore, (*cuts+1)/2, *cuts-done)
		done += n
		t.tally = tallies[i%2]
		j := job{Format: true, Ordered: i%2 == 1, OS: *osSync, Changes: *changes}
		if err := t.try(ctx, j, n); err != nil {
			return err
		}
	}
	if err := table(stdout, tallies); err != nil {
		return err
	}
	if tallies[0].losses+tallies[1].losses > 0 {
		return errLoss
	}
	return nil
}

// trial is a run of the command.
type trial struct {
	*tally // of the structure that is tried
	stderr io.Writer
	save   string
	rng    *rand.Rand
	hash   maphash.Seed
	shown  time.Time // when progress was printed last
}

// try lets a store change, and then cuts its power n times. Some of the cuts hit the recovery from
// the cut before.
func (t *trial) try(ctx context.Context, j job, n int) error {
	j.Seed = t.rng.Uint64()
	whole, history := newDisk(newImage()), newStory()
	if err := t.run(ctx, whole, j, history); err != nil {
		return fmt.Errorf("%s without a power cut: %w", t.name, err)
	}
	j.Format, j.Changes = false, 2
	d, s := whole, history
	for range n {
		if d == nil || t.rng.IntN(4) > 0 {
			d, s = whole, history
		} else if d != whole {
			t.recoveries++
		}
		if d, s = t.cut(ctx, d, s, j); ctx.Err() != nil {
			return fmt.Errorf("after %d power cuts: %w", t.cuts, context.Cause(ctx))
		}
	}
	return nil
}

// run runs a guest on a disk, and counts what it does.
func (t *trial) run(ctx context.Context, d *disk, j job, s *story) error {
	h := host{disk: d, job: j, story: s, progress: t.progress}
	defer t.count(d, s)
	return h.runGuest(ctx)
}

// progress prints once per second how far the trial is.
func (t *trial) progress(s *story) {
	if time.Since(t.shown) > time.Second {
		t.shown = time.Now()
		fmt.Fprintf(t.stderr, "%s: %d changes, %d power cuts, %d losses\n", t.name,
			t.changes+s.changes, t.cuts, t.losses)
	}
}

// cut cuts the power of a disk once and lets a guest recover. It returns the disk and the story of
// the recovery, or nil after a loss.
func (t *trial) cut(ctx context.Context, d *disk, s *story, j job) (*disk, *story) {
	at := s.point(d.log, t.rng)
	next, rest := newDisk(d.cut(at, t.rng)), s.after(at)
	j.Seed = t.rng.Uint64()
	err := t.run(ctx, next, j, rest)
	if ctx.Err() != nil {
		return nil, nil
	}
	t.cuts++
	t.images[next.start.digest(t.hash)] = true
	if err == nil {
		return next, rest
	}
	t.losses++
	fmt.Fprintf(t.stderr, "%s: power cut %d, after entry %d of %d: %v\n", t.name, t.cuts, at,
		len(d.log), err)
	if t.save != "" {
		name := fmt.Sprintf("%s-%d-%d.ext4", t.name, os.Getpid(), t.cuts)
		if err := next.start.save(filepath.Join(t.save, name)); err != nil {
			fmt.Fprintf(t.stderr, "-save %s: %v\n", t.save, err)
		}
	}
	return nil, nil
}
