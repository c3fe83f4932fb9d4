package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/core"
)

var (
	crashImages = flag.Int("crash-images", 600, "images of power failures for each kind of structure")
	crashTime   = flag.Duration("crash-time", 0, "time for power failures, in place of a number of images")
	crashSeed   = flag.Uint64("crash-seed", 0, "seed of the first program whose power fails")
)

// small makes frames and reservations small for a test, so that changes have many. Salts depend on
// the number of the segment only, so that distinct images can be counted.
func small(t *testing.T) {
	payload, step, salt := maxPayload, allocationStep, newSalt
	maxPayload, allocationStep = 96, 512
	newSalt = func(number uint64) uint64 { return (number + 1) * 0x9e3779b97f4a7c15 }
	t.Cleanup(func() { maxPayload, allocationStep, newSalt = payload, step, salt })
}

func openSubject(fs fileSystem, make func() (subject, error), opts Options) (subject, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	return open(context.Background(), fs, io.NopCloser(nil), make, opts)
}

// history runs random changes on a file system and returns the content after each. states[0] is the
// content at first. A failed sync ends it early.
func history(fs *memoryFS, make func() (subject, error), opts Options, rng *rand.Rand, first, n int) (states []string, err error) {
	m, err := openSubject(fs, make, opts)
	if err != nil {
		return nil, err
	}
	states = []string{m.content()}
	checkpoint := heldCheckpoint{}
	defer checkpoint.end()
	for i := range n {
		fs.mark(begun, first+i+1)
		err := m.change(rng)
		states = append(states, m.content())
		if errors.Is(err, ErrFailed) {
			break
		}
		if err != nil {
			return nil, err
		}
		if opts.Sync != EveryBatch && rng.IntN(4) > 0 {
			continue // has returned, and promises nothing
		}
		if opts.Sync != EveryBatch {
			if err := m.Sync(context.Background()); err != nil {
				return nil, err
			}
		}
		fs.mark(returned, first+i+1)
		if rng.IntN(8) == 0 || checkpoint.running() && rng.IntN(2) == 0 { // then of two segments
			if err := fs.backup(i+1, rng.IntN(2) == 0); err != nil {
				return nil, err
			}
		}
		switch {
		case checkpoint.running() && rng.IntN(3) == 0:
			err = checkpoint.end()
		case !checkpoint.running() && rng.IntN(6) == 0:
			checkpoint.begin(fs, m)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := checkpoint.end(); err != nil {
		return nil, err
	}
	events := len(fs.events)
	_ = m.Close() // after a failure it fails
	if rng.IntN(2) == 0 {
		fs.events = fs.events[:events] // as if it had not been closed
	}
	return states, nil
}

// heldCheckpoint is a checkpoint that begins and waits, so that changes come while it is under way.
// A checkpoint of a multimap or of a table graph does not wait, since their changes would.
type heldCheckpoint struct {
	fs   *memoryFS
	done chan error
}

func (c *heldCheckpoint) running() bool { return c.done != nil }

func (c *heldCheckpoint) begin(fs *memoryFS, m subject) {
	c.fs, c.done = fs, make(chan error, 1)
	switch m.(type) {
	case multiSubject, tableGraphSubject:
	default:
		fs.setHold(make(chan struct{}))
	}
	go func() { c.done <- Checkpoint(context.Background(), m) }()
}

// end lets the checkpoint finish.
func (c *heldCheckpoint) end() error {
	if c.done == nil {
		return nil
	}
	if c.fs.hold != nil {
		close(c.fs.hold)
		c.fs.setHold(nil)
	}
	err := <-c.done
	c.done = nil
	if errors.Is(err, ErrFailed) || errors.Is(err, errDisk) {
		return nil
	}
	return err
}

// crashes checks images of a history at random moments, or at all if n is large. Some are opened
// while power fails again, and go on with more changes, before they are checked.
type crashes struct {
	make   func() (subject, error)
	opts   Options
	rng    *rand.Rand
	images int
	seen   map[uint64]struct{} // hashes of the images and of the contents that they may have
	sites  map[string]bool     // places where syncs were made, unless nil
	omit   string              // the place where syncs do nothing
	err    error               // the first failure
}

// run checks images of one history of n changes: one of every moments, and with depth 1 images of
// their recoveries.
func (c *crashes) run(n, every, depth int) error {
	fs := newMemoryFS(nil)
	fs.trace(c.omit, c.sites != nil)
	states, err := history(fs, c.make, c.opts, c.rng, 0, n)
	if err != nil {
		return err
	}
	maps.Copy(c.sites, fs.sites)
	c.check(fs, states, every, depth)
	for _, b := range fs.backups {
		maps.Copy(c.sites, b.sites)
		if c.err == nil {
			c.err = c.checkBackup(b, states[b.state])
		}
	}
	return c.err
}

// checkBackup checks what power failures leave of a backup: nothing, or the state that the store
// had. After the backup has returned, they leave all of it.
func (c *crashes) checkBackup(b backupFS, state string) error {
	d := newDisk()
	for i, e := range b.events {
		d.apply(e)
		whole, late := i+1 == len(b.events), i+4 >= len(b.events)
		if i < b.setup || !late && c.rng.IntN(4) > 0 {
			continue
		}
		for range map[bool]int{false: 1, true: 6}[late] { // the manifest is among the last events
			if err := c.readBackup(d, state, whole); err != nil {
				return fmt.Errorf("event %d of %d of a backup: %w", i, len(b.events), err)
			}
		}
	}
	return nil
}

// readBackup reads an image of a backup.
func (c *crashes) readBackup(d *disk, state string, whole bool) error {
	m, err := c.make()
	if err != nil {
		return err
	}
	defer m.Close()
	opts, err := Options{}.check()
	if err != nil {
		return err
	}
	files := d.image(c.rng)
	c.note(files, []string{state})
	_, err = read(context.Background(), newMemoryFS(files), core.LoggedOf(m), opts)
	if got := m.content(); whole && err != nil || err == nil && got != state {
		return fmt.Errorf("the content is %s, and should be %s: %w", got, state, err)
	}
	return nil
}

// check makes images of what a file system has recorded and opens them. states are the contents
// that the numbers of its marks stand for.
func (c *crashes) check(fs *memoryFS, states []string, every, depth int) {
	d := newDisk()
	for i, e := range fs.events {
		d.apply(e)
		if i < fs.setup || i > fs.setup+16 && c.rng.IntN(every) > 0 {
			continue
		}
		if err := c.open(d, states, depth); err != nil && c.err == nil {
			c.err = fmt.Errorf("event %d of %d: changes %d to %d: %w", i, len(fs.events), d.returned, d.begun, err)
		}
		if c.err != nil {
			return
		}
	}
}

// note counts an image, and reports whether it is new or may have other contents than before.
func (c *crashes) note(files map[string][]byte, allowed []string) bool {
	var h maphash.Hash
	h.SetSeed(imageSeed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.WriteString(name)
		h.Write(files[name])
	}
	for _, state := range allowed {
		h.WriteString(state)
	}
	c.images++
	if c.seen == nil {
		c.seen = map[uint64]struct{}{}
	}
	n := len(c.seen)
	c.seen[h.Sum64()] = struct{}{}
	return len(c.seen) > n
}

var imageSeed = maphash.MakeSeed()

// open opens an image, and compares its content with the states that may be there.
func (c *crashes) open(d *disk, states []string, depth int) error {
	files, allowed := d.image(c.rng), states[d.returned:min(d.begun+1, len(states))]
	if !c.note(files, allowed) && depth == 0 {
		return nil // has been checked
	}
	if files[manifestName] != nil && c.rng.IntN(8) == 0 {
		if err := c.copied(files, allowed); err != nil {
			return fmt.Errorf("a backup: %w\n%v", err, sizes(files))
		}
	}
	image := newMemoryFS(files)
	image.trace(c.omit, c.sites != nil)
	image.mark(begun, d.begun)
	image.mark(returned, d.returned)
	image.setup += 2
	before := image.files()
	m, err := openSubject(image, c.make, c.opts)
	if err != nil {
		return fmt.Errorf("%w\n%v", err, sizes(before))
	}
	defer m.Close()
	maps.Copy(c.sites, image.sites)
	got := m.content()
	at := slices.Index(allowed, got)
	if at < 0 {
		return fmt.Errorf("the content is %s, and should be one of %q\n%v", got, allowed, sizes(before))
	}
	if depth == 0 {
		return nil
	}
	// The next power failure comes in the recovery, or after changes that follow it.
	states = append(slices.Clone(states[:d.returned+at]), got)
	n := len(states) - 1
	image.mark(begun, n)
	image.mark(returned, n)
	for i := range 3 {
		image.mark(begun, n+i+1)
		if err := m.change(c.rng); err != nil {
			return err
		}
		states = append(states, m.content())
		if c.opts.Sync == EveryBatch {
			image.mark(returned, n+i+1)
		}
	}
	c.check(image, states, 3, depth-1)
	return nil
}

// copied checks a backup of an image. The store has not been opened since power failed.
func (c *crashes) copied(files map[string][]byte, allowed []string) error {
	from, to := newMemoryFS(files), newMemoryFS(nil)
	if err := (&copier{ctx: context.Background(), from: from, to: to}).run(); err != nil {
		return err
	}
	m, err := c.make()
	if err != nil {
		return err
	}
	defer m.Close()
	opts, err := Options{}.check()
	if err == nil {
		_, err = read(context.Background(), to, core.LoggedOf(m), opts)
	}
	if got := m.content(); err == nil && !slices.Contains(allowed, got) {
		err = fmt.Errorf("the content is %s, and should be one of %q", got, allowed)
	}
	return err
}

func sizes(files map[string][]byte) string {
	s := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s += fmt.Sprintf("%s: %d bytes\n", name, len(files[name]))
	}
	return s
}

// After a power failure at any moment a store has all changes that had returned, and the change
// under way as a whole or not at all.
func TestPowerFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	all := subjects(dev)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, sync := range []Sync{EveryBatch, Interval(time.Millisecond), OS} {
			t.Run(fmt.Sprintf("%s, %v", name, sync), func(t *testing.T) {
				images, seen, end := 0, map[uint64]struct{}{}, time.Now().Add(*crashTime/time.Duration(3*len(all)))
				for seed := *crashSeed; ; seed++ {
					rng := rand.New(rand.NewPCG(seed, 1))
					c := &crashes{make: all[name], opts: Options{Sync: sync, LogLimit: 4096}, rng: rng, seen: seen}
					if err := c.run(15, 4, 1); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					images += c.images
					if *crashTime > 0 && time.Now().After(end) || *crashTime == 0 && images >= *crashImages/3 {
						t.Logf("%d images, %d distinct ones, of %d programs", images, len(seen), seed-*crashSeed+1)
						break
					}
				}
			})
		}
	}
}

// Numbers of frames, segments and checkpoints may pass 2^31, 2^32 and 2^63.
func TestLargeNumbers(t *testing.T) {
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	defer func(first uint64) { firstNumber = first }(firstNumber)
	for _, limit := range []uint64{1 << 31, 1 << 32, 1 << 63} {
		for seed := range uint64(3) {
			firstNumber = limit - 2 - 20*seed // segments pass it first, then frames
			c := &crashes{make: subjects(dev)["map"], opts: Options{LogLimit: 4096}, rng: rand.New(rand.NewPCG(seed, 4))}
			if err := c.run(15, 8, 1); err != nil {
				t.Errorf("from %d: %v", firstNumber, err)
			}
		}
	}
}

// Each sync is needed: without it, power failures lose changes.
func TestOmittedSyncs(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	run := func(seed uint64, omit string) (*crashes, error) {
		c := &crashes{make: subjects(dev)["map"], opts: Options{LogLimit: 4096}, rng: rand.New(rand.NewPCG(seed, 2)), omit: omit, sites: map[string]bool{}}
		if seed%4 == 3 {
			return c, c.run(15, 4, 1)
		}
		return c, c.run(15, 1, 0)
	}
	sites := map[string]bool{}
	for seed := range uint64(5) {
		c, err := run(seed, "")
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(sites, c.sites)
	}
	if len(sites) < 11 {
		t.Errorf("only these places sync: %q", slices.Sorted(maps.Keys(sites)))
	}
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		t.Run(site, func(t *testing.T) {
			for seed := range uint64(400) {
				if _, err := run(seed, site); err != nil {
					return
				}
			}
			t.Error("nothing is lost without it")
		})
	}
}

// A failed sync ends a store. What it had promised is there when the store is opened again, and
// also after a power failure that comes later.
func TestFailedSyncs(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	failed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := &crashes{make: subjects(dev)["map"], opts: Options{LogLimit: 4096, ReadAfterFailure: true}, rng: rng}
		fs := newMemoryFS(nil)
		fs.failSync = 1 + rng.IntN(40)
		states, err := history(fs, c.make, c.opts, rng, 0, 30)
		if errors.Is(err, errDisk) {
			states, err = []string{emptyContent}, nil // Open failed
		}
		if err != nil {
			t.Fatal(err)
		}
		if fs.failSync > 0 {
			continue
		}
		failed++
		m, err := openSubject(fs, c.make, c.opts)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		n, content := len(states)-1, m.content()
		for n >= 0 && states[n] != content {
			n--
		}
		if done := lastReturned(fs); n < done {
			t.Fatalf("seed %d: after %d changes, %d of which have returned, the content is that after %d", seed, len(states)-1, done, n)
		}
		states = states[:n+1]
		fs.mark(begun, n)
		fs.mark(returned, n)
		for i := range 5 {
			fs.mark(begun, n+i+1)
			if err := m.change(rng); err != nil {
				t.Fatal(err)
			}
			states = append(states, m.content())
			fs.mark(returned, n+i+1)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if c.check(fs, states, 40, 1); c.err != nil {
			t.Fatalf("seed %d: %v", seed, c.err)
		}
	}
	if failed < 20 {
		t.Errorf("only %d syncs failed", failed)
	}
}

// lastReturned returns the number of the last change that has returned.
func lastReturned(fs *memoryFS) (n int) {
	for _, e := range fs.events {
		if e.kind == returned {
			n = e.mark
		}
	}
	return n
}

const emptyContent = "map[]"

// A closed store with any damage is refused, or has its whole content.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of stores")
	}
	small(t)
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for name, make := range subjects(dev) {
		rng := rand.New(rand.NewPCG(5, 6))
		fs := newMemoryFS(nil)
		states, err := history(fs, make, Options{LogLimit: 4096}, rng, 0, 40)
		if err != nil {
			t.Fatal(err)
		}
		whole, last, older := fs.files(), states[len(states)-1], newestImage(fs)
		refused := 0
		for range 400 {
			files := maps.Clone(whole)
			file := slices.Sorted(maps.Keys(files))[rng.IntN(len(files))]
			data := slices.Clone(files[file])
			at := rng.IntN(len(data))
			what := "a bit is turned"
			switch rng.IntN(5) {
			default:
				data[at] ^= 1 << rng.IntN(8)
			case 0:
				what = "a sector is zero"
				clear(data[at:min(at+sector, len(data))])
			case 1:
				what = "the end is missing"
				data = data[:at]
			case 2:
				what = "it is missing"
				delete(files, file)
				data = nil
			case 3:
				what = "it is of an older generation"
				if data = older[file]; data == nil {
					continue
				}
			}
			if data != nil {
				files[file] = data
			}
			m, err := openSubject(newMemoryFS(files), make, Options{})
			if err != nil {
				if refused++; !errors.Is(err, weft.ErrCorrupt) && !errors.Is(err, weft.ErrFormat) {
					t.Errorf("%s: %s: %s, byte %d: %v", name, file, what, at, err)
				}
				continue
			}
			if got := m.content(); got != last {
				t.Errorf("%s: %s: %s, byte %d of %d: the content is %s, and was %s", name, file, what, at, len(data), got, last)
			}
			m.Close()
		}
		if refused < 100 {
			t.Errorf("%s: only %d damages were refused", name, refused)
		}
	}
}

// newestImage returns what the disk held, in full, when half of the events were over.
func newestImage(fs *memoryFS) map[string][]byte {
	d := newDisk()
	for _, e := range fs.events[:len(fs.events)/2] {
		d.apply(e)
	}
	files := map[string][]byte{}
	for name, n := range d.names {
		files[name] = d.files[n].data
	}
	return files
}
