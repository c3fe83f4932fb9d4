package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
)

var crashImages = flag.Int("crash-images", 600, "images of power failures for each kind of structure")

// small makes frames and reservations small for a test, so that changes have many.
func small(t *testing.T) {
	payload, step := maxPayload, allocationStep
	maxPayload, allocationStep = 96, 512
	t.Cleanup(func() { maxPayload, allocationStep = payload, step })
}

// subject is a structure with random changes and a content that can be compared.
type subject interface {
	Structure
	change(rng *rand.Rand) error
	content() string
	Sync(ctx context.Context) error
}

func randomKeys(rng *rand.Rand) (keys, vals []uint64) {
	n := 1 + rng.IntN(4)
	if rng.IntN(4) == 0 {
		n = 20 // several frames
	}
	for range n {
		keys, vals = append(keys, rng.Uint64N(40)), append(vals, rng.Uint64N(100))
	}
	return keys, vals
}

type mapSubject struct{ *linear.Map[uint64, uint64] }

func (m mapSubject) content() string { return fmt.Sprint(maps.Collect(m.All())) }

func (m mapSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(12) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.PutNew(ctx, keys, vals, nil)
	case 1, 2:
		_, err = m.Delete(ctx, keys, nil)
	case 3:
		_, err = m.Reduce(ctx, keys, vals, weft.Sum)
	case 4:
		_, err = m.GetOrPut(ctx, keys, vals, nil)
	case 5:
		ops := make([]weft.Op[uint64, uint64], len(keys))
		for i, k := range keys {
			kinds := []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpMax}
			ops[i] = weft.Op[uint64, uint64]{Kind: kinds[rng.IntN(len(kinds))], Key: k, Value: vals[i]}
		}
		err = m.Apply(ctx, ops, nil)
	case 6:
		if rng.IntN(4) == 0 {
			err = m.Clear(ctx)
		}
	}
	return err
}

type setSubject struct{ *linear.Set[uint32] }

func (s setSubject) content() string { return fmt.Sprint(slices.Sorted(s.All())) }

func (s setSubject) change(rng *rand.Rand) (err error) {
	wide, _ := randomKeys(rng)
	keys := make([]uint32, len(wide))
	for i, k := range wide {
		keys[i] = uint32(k)
	}
	if rng.IntN(3) == 0 {
		_, err = s.Delete(context.Background(), keys, nil)
	} else {
		_, err = s.Add(context.Background(), keys, nil)
	}
	return err
}

type multiSubject struct{ *slab.MultiMap[uint64, uint64] }

func (m multiSubject) content() string {
	pairs := []string{}
	for k, v := range m.All() {
		pairs = append(pairs, fmt.Sprint(k, v))
	}
	slices.Sort(pairs)
	return fmt.Sprint(pairs)
}

func (m multiSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(6) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.Delete(ctx, keys, nil)
	case 1:
		_, err = m.DeleteAll(ctx, keys, nil)
	case 2:
		ops := make([]weft.Op[uint64, uint64], len(keys))
		for i, k := range keys {
			ops[i] = weft.Op[uint64, uint64]{Kind: []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpDeleteAll}[rng.IntN(3)], Key: k, Value: vals[i]}
		}
		err = m.Apply(ctx, ops, nil)
	}
	return err
}

type orderedSubject struct{ *ordered.Map[uint64, uint64] }

func (m orderedSubject) content() string { return fmt.Sprint(maps.Collect(m.All())) }

func (m orderedSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	switch rng.IntN(5) {
	default:
		_, err = m.Put(ctx, keys, vals)
	case 0:
		_, err = m.Delete(ctx, keys, nil)
	case 1:
		_, err = m.DeleteRange(ctx, keys, vals, nil)
	case 2:
		_, err = m.Reduce(ctx, keys, vals, weft.Min)
	}
	return err
}

// assignSubject is a map of ids. Its content includes the next id, which no crash may bring back.
type assignSubject struct{ *linear.Map[uint64, uint64] }

func (m assignSubject) content() string {
	return fmt.Sprint(maps.Collect(m.All()), storeContent(m))
}

var errOnlyID = errors.New("only the next id is wanted")

func storeContent(m Structure) uint64 {
	next := ^uint64(0)
	if err := core.LoggedOf(m).Checkpoint(context.Background(), func(id uint64) error { next = id; return errOnlyID }, nil); !errors.Is(err, errOnlyID) {
		panic(err)
	}
	return next
}

func (m assignSubject) change(rng *rand.Rand) (err error) {
	ctx := context.Background()
	keys, vals := randomKeys(rng)
	if rng.IntN(3) == 0 {
		_, err = m.Delete(ctx, keys, nil)
	} else {
		_, err = m.Assign(ctx, keys, vals)
	}
	return err
}

// subjects makes the structures that crash tests run.
func subjects(dev device.Device) map[string]func() (subject, error) {
	return map[string]func() (subject, error){
		"map": func() (subject, error) {
			m, err := linear.New[uint64, uint64](dev, nil)
			return mapSubject{m}, err
		},
		"set": func() (subject, error) {
			s, err := linear.NewSet[uint32](dev, nil)
			return setSubject{s}, err
		},
		"multimap": func() (subject, error) {
			m, err := slab.NewMultiMap[uint64, uint64](dev, &slab.Options{Capacity: 100})
			return multiSubject{m}, err
		},
		"ordered": func() (subject, error) {
			m, err := ordered.New[uint64, uint64](dev, nil)
			return orderedSubject{m}, err
		},
		"assign": func() (subject, error) {
			m, err := linear.New[uint64, uint64](dev, nil)
			return assignSubject{m}, err
		},
	}
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
		if rng.IntN(8) == 0 {
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
// A multimap's checkpoint does not wait, since its changes would.
type heldCheckpoint struct {
	fs   *memoryFS
	done chan error
}

func (c *heldCheckpoint) running() bool { return c.done != nil }

func (c *heldCheckpoint) begin(fs *memoryFS, m subject) {
	c.fs, c.done = fs, make(chan error, 1)
	if _, multi := m.(multiSubject); !multi {
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
	sites  map[string]bool // places where syncs were made
	omit   string          // the place where syncs do nothing
	err    error           // the first failure
}

// run checks images of one history of n changes: one of every moments, and with depth 1 images of
// their recoveries.
func (c *crashes) run(n, every, depth int) error {
	fs := newMemoryFS(nil)
	fs.omit = c.omit
	states, err := history(fs, c.make, c.opts, c.rng, 0, n)
	if err != nil {
		return err
	}
	c.sites = fs.sites
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
		whole := i+1 == len(b.events)
		if i < b.setup || !whole && c.rng.IntN(4) > 0 {
			continue
		}
		c.images++
		m, err := c.make()
		if err != nil {
			return err
		}
		opts, err := Options{}.check()
		if err != nil {
			return err
		}
		_, err = read(context.Background(), newMemoryFS(d.image(c.rng)), core.LoggedOf(m), opts)
		if got := m.content(); whole && err != nil || err == nil && got != state {
			return fmt.Errorf("event %d of %d of a backup: the content is %s, and should be %s: %w", i, len(b.events), got, state, errors.Join(err, m.Close()))
		}
		if err := m.Close(); err != nil {
			return err
		}
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
		c.images++
		if err := c.open(d, states, depth); err != nil && c.err == nil {
			c.err = fmt.Errorf("event %d of %d: changes %d to %d: %w", i, len(fs.events), d.returned, d.begun, err)
		}
		if c.err != nil {
			return
		}
	}
}

// open opens an image, and compares its content with the states that may be there.
func (c *crashes) open(d *disk, states []string, depth int) error {
	image := newMemoryFS(d.image(c.rng))
	image.omit = c.omit
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
	got, allowed := m.content(), states[d.returned:min(d.begun+1, len(states))]
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
				images := 0
				for seed := uint64(0); ; seed++ {
					rng := rand.New(rand.NewPCG(seed, 1))
					c := &crashes{make: all[name], opts: Options{Sync: sync, LogLimit: 4096}, rng: rng}
					if err := c.run(15, 4, 1); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if images += c.images; images >= *crashImages/3 {
						t.Logf("%d images of %d programs", images, seed+1)
						break
					}
				}
			})
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
		c := &crashes{make: subjects(dev)["map"], opts: Options{LogLimit: 4096}, rng: rand.New(rand.NewPCG(seed, 2)), omit: omit}
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
			for seed := range uint64(200) {
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
		c := &crashes{make: subjects(dev)["map"], opts: Options{LogLimit: 4096, ReadAfterFailure: true}, rng: rng, sites: map[string]bool{}}
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
