//go:build linux

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"golang.org/x/sys/unix"
)

// job says what a guest does with its disk.
type job struct {
	Format  bool // make the file system first
	Ordered bool // the store is an ordered map
	OS      bool // durable.OS instead of durable.EveryBatch
	Changes int
	Seed    uint64
}

// report is a message of the guest, which continues when the host has answered.
type report struct {
	Event    event
	Content  content // of opened
	Change   change  // of begins
	LogBytes int64   // of returned
	Error    string  // of failed
}

type event int

const (
	connected event = iota // the disk has a FUSE connection, and needs a server
	mounted                // the disk has a file system
	opened                 // the store is open
	begins                 // a change begins
	returned               // the change has returned
	ended                  // the store is closed, and the file system unmounted
	failed
)

// guest is the process that uses the disk. It is a process of its own, so the host never waits for
// its own disk. Its mounts are visible only in the guest. When the guest ends in any way, the
// system unmounts them and frees the loop device.
type guest struct {
	job
	in  *gob.Decoder
	out *gob.Encoder
	dir string // of the store
}

// guestEnv makes this program a guest.
const guestEnv = "WEFT_POWERCUT_GUEST"

// connection is the file descriptor of the FUSE connection in a guest.
const connection = 3

// beGuest is the main function of a guest. It returns the exit status.
func beGuest() int {
	g := &guest{in: gob.NewDecoder(os.Stdin), out: gob.NewEncoder(os.Stdout)}
	err := g.in.Decode(&g.job)
	if err == nil {
		err = g.run()
	}
	if err != nil {
		g.out.Encode(report{Event: failed, Error: err.Error()})
		return 1
	}
	return 0
}

// send sends a report and waits for the answer.
func (g *guest) send(r report) error {
	if err := g.out.Encode(r); err != nil {
		return err
	}
	var answer bool
	return g.in.Decode(&answer)
}

func (g *guest) run() error {
	dir := os.TempDir() // hidden by a folder in memory
	export, files := filepath.Join(dir, "export"), filepath.Join(dir, "files")
	image := filepath.Join(export, imageName)
	g.dir = filepath.Join(files, "store")
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", connection)
	for _, step := range []func() error{
		func() error { return mount("tmpfs", dir, "") },
		func() error { return errors.Join(os.Mkdir(export, 0o700), os.Mkdir(files, 0o700)) },
		func() error { return mount("fuse", export, options) },
		func() error { return unix.Close(connection) },
		func() error { return g.send(report{Event: connected}) },
		func() error { return g.format(image) },
		func() error { return execute("mount", "-t", "ext4", "-o", "loop", image, files) },
		func() error { return g.send(report{Event: mounted}) },
		g.change,
		func() error { return unmount(files, 0) },
		func() error { return unmount(export, unix.MNT_DETACH) }, // the loop device may close late
		func() error { return g.send(report{Event: ended}) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func mount(kind, target, options string) error {
	if err := unix.Mount("powercut", target, kind, 0, options); err != nil {
		return fmt.Errorf("mount %s on %s with options %q: %w", kind, target, options, err)
	}
	return nil
}

func unmount(target string, flags int) error {
	if err := unix.Unmount(target, flags); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}

func execute(name string, args ...string) error {
	c := exec.Command(name, args...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", c, err, out)
	}
	return nil
}

// format makes the file system, if the job says so. No part of it is written later, and its small
// journal is reused often.
func (g *guest) format(image string) error {
	if !g.Format {
		return nil
	}
	return execute("mkfs.ext4", "-q", "-b", fmt.Sprint(blockBytes), "-J", "size=4",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
}

// store is a durable map, ordered or not.
type store interface {
	durable.Structure
	Put(ctx context.Context, keys, vals []uint64) (int, error)
	Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error)
	Clear(ctx context.Context) error
	All() iter.Seq2[uint64, uint64]
	Len() int
}

// change makes random changes, and now and then closes the store and opens it again.
func (g *guest) change() error {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(g.Seed, 0))
	s, err := g.open(ctx)
	for i := 0; err == nil && i < g.Changes; i++ {
		if rng.IntN(40) == 0 {
			if err = s.Close(); err == nil {
				s, err = g.open(ctx)
			}
		}
		if err == nil {
			err = g.apply(ctx, s, randomChange(rng))
		}
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// open opens the store and reports its content.
func (g *guest) open(ctx context.Context) (store, error) {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	options := durable.Options{LogLimit: 1 << 13} // a checkpoint after some tens of changes
	if g.OS {
		options.Sync = durable.OS
	}
	s, err := durable.Open(ctx, g.dir, func() (store, error) {
		if g.Ordered {
			return ordered.New[uint64, uint64](dev, nil)
		}
		return linear.New[uint64, uint64](dev, nil)
	}, options)
	if err != nil {
		return nil, err
	}
	found := content(maps.Collect(s.All()))
	if n := s.Len(); n != len(found) {
		return nil, fmt.Errorf("Len returns %d, and All has %d pairs", n, len(found))
	}
	return s, g.send(report{Event: opened, Content: found})
}

// apply makes one change, and reports before and after it.
func (g *guest) apply(ctx context.Context, s store, c change) error {
	if err := g.send(report{Event: begins, Change: c}); err != nil {
		return err
	}
	var err error
	switch {
	case c.Keys == nil:
		err = s.Clear(ctx)
	case c.Vals == nil:
		_, err = s.Delete(ctx, c.Keys, nil)
	default:
		_, err = s.Put(ctx, c.Keys, c.Vals)
	}
	if err != nil {
		return err
	}
	info, err := durable.Status(s)
	if err != nil {
		return err
	}
	return g.send(report{Event: returned, LogBytes: info.LogBytes})
}
