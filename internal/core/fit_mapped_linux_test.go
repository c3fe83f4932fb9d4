package core_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// ---- the structure --------------------------------------------------------------

// A mapped table is a file of words: the number of commits, the number of slots, a log of old
// slots, and the slots. Opening the file undoes the log entries that belong to the current number
// of commits. A log entry has four words: a checksum, and the index, key and value of a slot.
const (
	logAt   = 8
	logOps  = 16
	slotsAt = logAt + 4*logOps
)

// file is one generation of a mapped table.
type file struct {
	path     string
	mem      []byte
	words    []uint64
	slots    []pair
	unmap    func() error
	counters core.Tally

	durable []uint64 // the words that survive any crash
}

func (f *file) Tally() *core.Tally { return &f.counters }

func (f *file) Free() error { return errors.Join(f.unmap(), unix.Munmap(f.mem)) }

// medium orders writes: persisted words survive a crash if any later write does.
type medium interface {
	persist(f *file, lo, hi int) error  // persists words [lo,hi)
	publish(f *file, path string) error // replaces the file at path
}

type disk struct{}

func (disk) persist(f *file, lo, hi int) error { return unix.Msync(f.mem, unix.MS_SYNC) }
func (disk) publish(f *file, path string) error {
	err := os.Rename(f.path, path)
	f.path = path
	return err
}

// mapFile maps a file. If the file does not exist, mapFile creates it with the given number of
// words.
func mapFile(dev device.Device, path string, words int) (*file, error) {
	h, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if words > 0 {
		if err := h.Truncate(int64(8 * words)); err != nil {
			return nil, err
		}
	}
	info, err := h.Stat()
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(h.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	b, unmap, err := dev.Map(mem)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	f := &file{path: path, mem: mem, words: batch.View[uint64](b.Host), unmap: unmap}
	f.slots = batch.View[pair](b.Host[8*slotsAt:])
	f.durable = make([]uint64, len(f.words))
	return f, nil
}

// makeFile makes a file with empty slots that is not yet persisted.
func makeFile(dev device.Device, path string, slots int) (*file, error) {
	f, err := mapFile(dev, path, slotsAt+2*slots)
	if err != nil {
		return nil, err
	}
	f.words[0], f.words[1] = 1, uint64(slots)
	for i := range f.slots {
		f.slots[i].Key = cpu.Sentinel[uint64](cpu.Empty)
	}
	return f, nil
}

// find returns the slot of a key, or the empty slot in which the key would be stored.
func (f *file) find(key uint64) int {
	at := int(hash.Reduce64(hash.Uint64(key, 0), uint64(len(f.slots))))
	for f.slots[at].Key != key && f.slots[at].Key != cpu.Sentinel[uint64](cpu.Empty) {
		at = (at + 1) % len(f.slots)
	}
	return at
}

func (f *file) has(at int) bool { return !cpu.IsSentinel(f.slots[at].Key, cpu.Dead) }

// entry returns log entry i and its correct checksum.
func (f *file) entry(i int) (e []uint64, sum uint64) {
	e = f.words[logAt+4*i:][:4]
	for _, w := range e[1:] {
		sum = hash.Uint64(sum^w, f.words[0]+uint64(i))
	}
	return e, sum
}

// mapped is the engine and the policy of a mapped table.
type mapped struct {
	easy
	cpu.Engine
	medium
	logged int   // number of log entries since the last commit
	broken error // the error after which changes are rejected
}

func openMapped(dev device.Host, path string, m medium) (*core.Table, error) {
	e := &mapped{Engine: cpu.Engine{Device: dev}, medium: m}
	f, err := mapFile(dev, path, 0)
	if err != nil {
		if f, err = makeFile(dev, path+".new", 4); err == nil {
			err = errors.Join(m.persist(f, 0, len(f.words)), m.publish(f, path))
		}
	}
	if err != nil {
		return nil, err
	}
	e.Leases = core.NewLeases(f)
	if err := e.recover(f); err != nil {
		return nil, err
	}
	return core.Open(ctx, config("mapped", dev, e, e, e.Leases))
}

// recover undoes the changes that were not committed.
func (e *mapped) recover(f *file) error {
	copy(f.durable, f.words)
	for ; e.logged < logOps; e.logged++ {
		if entry, sum := f.entry(e.logged); entry[0] != sum {
			break
		}
	}
	for i := e.logged - 1; i >= 0; i-- {
		entry, _ := f.entry(i)
		f.slots[entry[1]].Key, f.slots[entry[1]].Val = entry[2], entry[3]
	}
	err := e.Commit(ctx)
	for i := range f.slots {
		if f.has(i) {
			f.counters.Live++
		}
		if f.slots[i].Key != cpu.Sentinel[uint64](cpu.Empty) {
			f.counters.Used++
		}
	}
	return err
}

func (e *mapped) file() *file { return e.Parts().(*file) }

func (e *mapped) Caps() core.Caps { return core.Caps{DeletesMayOverflow: true} }

// Commit persists the slots, and then invalidates the log by incrementing the number of commits.
func (e *mapped) Commit(context.Context) error {
	f := e.file()
	if e.logged == 0 || e.broken != nil {
		return e.broken // the durable content is unknown
	}
	if e.broken = e.persist(f, slotsAt, len(f.words)); e.broken == nil {
		f.words[0]++
		e.broken = e.persist(f, 0, 1)
	}
	e.logged = 0
	return e.broken
}

// Prepare implements [core.Policy]. It returns as many operations as fit in the log and in the
// file.
func (e *mapped) Prepare(ctx context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, _ bool, err error) {
	if e.logged > 0 {
		err = e.Commit(ctx)
	}
	n = min(b.N, logOps)
	if f := e.file(); err == nil && now.Used+uint64(n) > uint64(len(f.slots))/4*3 {
		err = e.rehash(f, int(now.Live)+n)
	}
	return n, false, err
}

// rehash moves the pairs to a new file, which replaces the old file.
func (e *mapped) rehash(from *file, pairs int) error {
	f, err := makeFile(e.Device, from.path+".new", 2*pairs+4)
	if err != nil {
		return err
	}
	for i := range from.slots {
		if from.has(i) {
			f.slots[f.find(from.slots[i].Key)] = from.slots[i]
		}
	}
	f.counters = core.Tally{Live: from.counters.Live, Used: from.counters.Live}
	if e.broken = e.persist(f, 0, len(f.words)); e.broken == nil {
		e.broken = e.publish(f, from.path)
	}
	if e.broken != nil {
		return errors.Join(e.broken, f.Free())
	}
	return e.Leases.Replace(f)
}

func (e *mapped) Change(_ context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	f, c := e.file(), cpu.ChangesOf[uint64, uint64](b)
	defer func() {
		f.counters.Live += uint64(c.Live)
		f.counters.Used += uint64(c.Used)
	}()
	for i := range c.Keys {
		o := e.run(f, &c, uint32(i))
		if e.broken != nil {
			return i, nil, e.broken
		}
		c.WriteOutcome(uint32(i), o)
	}
	return b.N, nil, nil
}

// run runs an operation after logging the slot that it overwrites.
func (e *mapped) run(f *file, c *cpu.Changes[uint64, uint64], i uint32) cpu.Outcome {
	at := f.find(c.Keys[i])
	if !f.has(at) && !c.Kind(i).Inserts() {
		return cpu.Outcome{}
	}
	entry, _ := f.entry(e.logged)
	entry[1], entry[2], entry[3] = uint64(at), f.slots[at].Key, f.slots[at].Val
	_, entry[0] = f.entry(e.logged)
	lo := logAt + 4*e.logged
	if e.broken == nil {
		e.broken = e.persist(f, lo, lo+4)
	}
	if e.broken != nil {
		return cpu.Outcome{}
	}
	e.logged++
	if f.has(at) {
		return cpu.ApplyPresent(c, i, c.Kind(i), &f.slots[at])
	}
	return cpu.Insert(c, i, c.Keys[i], &f.slots[at])
}

func (e *mapped) Lookup(_ context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	f, to := l.Parts.(*file), cpu.AnswersOf[uint64](b)
	for i, k := range batch.View[uint64](b.Columns[batch.Keys].Host) {
		var p *pair
		if at := f.find(k); f.has(at) {
			p = &f.slots[at]
		}
		hits += cpu.WriteAnswer(&to, i, p)
	}
	return b.N, hits, nil
}

func (e *mapped) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(len(l.Parts.(*file).slots)), 1
}

func (e *mapped) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	f := l.Parts.(*file)
	keys, vals := batch.View[uint64](out.Columns[batch.Keys].Host), batch.View[uint64](out.Columns[batch.Vals].Host)
	for i := lo; i < hi; i++ {
		if f.has(int(i)) {
			keys[n], vals[n] = f.slots[i].Key, f.slots[i].Val
			n++
		}
	}
	return n, nil
}

// Clear replaces the file by a file without pairs.
func (e *mapped) Clear(context.Context) error {
	from := *e.file()
	from.slots, from.counters = nil, core.Tally{}
	return e.rehash(&from, 0)
}

// ---- the tests --------------------------------------------------------------------

// memoryDir returns a folder in a memory file system if one is available, because GPUs map only
// such files.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "weft")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// power is a medium with power failures. Before and after each persist, it makes the files that a
// crash may leave and opens them.
type power struct {
	t      *testing.T
	dev    device.Host
	dir    string // folder for the files that crashes leave
	rng    *rand.Rand
	file   *file   // the file at the path
	states []model // possible states after a crash, in order
	low    int     // index of the first state that is still possible
	images int
	deep   bool // also crash during recovery
}

func (p *power) persist(f *file, lo, hi int) error {
	p.crash()
	copy(f.durable[lo:hi], f.words[lo:hi])
	p.crash()
	return nil
}

func (p *power) publish(f *file, path string) error {
	p.crash()
	p.file = f
	p.crash()
	return disk{}.publish(f, path)
}

// crash opens files that a crash may leave: only the persisted words, everything written, any
// subset of the written words, or all words before some index.
func (p *power) crash() {
	f := p.file
	if f == nil {
		return
	}
	p.low = p.open(f.durable)
	p.open(f.words)
	torn, cut := slices.Clone(f.durable), slices.Clone(f.durable)
	for i, w := range f.words {
		if p.rng.IntN(2) == 0 {
			torn[i] = w
		}
	}
	copy(cut, f.words[:p.rng.IntN(len(cut))])
	p.open(torn)
	p.open(cut)
}

// open opens a file and returns the index of the possible state that it holds. It fails the test if
// the file holds none.
func (p *power) open(words []uint64) int {
	p.t.Helper()
	p.images++
	path := filepath.Join(p.dir, fmt.Sprint("crash", p.images))
	must(p.t, os.WriteFile(path, device.Bytes(words), 0o600))
	defer os.Remove(path)
	var m medium = quick{}
	if p.deep {
		m = &again{*p}
	}
	table, err := openMapped(p.dev, path, m)
	must(p.t, err)
	defer table.Close()
	must(p.t, table.Check(ctx))
	got := maps.Collect(weft.NewMap[uint64, uint64](table).All())
	for i := p.low; i < len(p.states); i++ {
		if maps.Equal(got, map[uint64]uint64(p.states[i])) && table.Len() == len(got) {
			return i
		}
	}
	p.t.Fatalf("after a crash, %d pairs %v are none of the states from %d of %v", len(got), got, p.low, p.states)
	return 0
}

// again simulates a power failure during recovery, after which the file is recovered once more.
type again struct{ power }

func (a *again) persist(f *file, lo, hi int) error {
	a.file, a.deep = f, false
	return a.power.persist(f, lo, hi)
}

type quick struct{ disk }

func (quick) persist(*file, int, int) error { return nil }

// change runs a batch with crashes in between. Each part of the batch that fits in the log must be
// present completely or not at all, in order. All parts must be present when the call has returned.
func (p *power) change(table *core.Table, kind op.Kind, keys, vals []uint64) {
	p.t.Helper()
	p.states, p.low = p.states[len(p.states)-1:], 0
	for lo := 0; lo < len(keys); lo += logOps {
		hi, next := min(lo+logOps, len(keys)), maps.Clone(p.states[len(p.states)-1])
		if kind == op.Put {
			next.putPairs(keys[lo:hi], vals[lo:hi])
		} else {
			next.remove(keys[lo:hi])
		}
		p.states = append(p.states, next)
	}
	b := &batch.Batch{N: len(keys), Kind: kind, Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
	if kind == op.Put {
		b.Columns = columns(keys, vals)
	}
	_, err := table.Change(ctx, kind.String(), b)
	must(p.t, err)
	last := p.states[len(p.states)-1]
	if p.low = p.open(p.file.durable); !maps.Equal(p.states[p.low], last) {
		p.t.Fatalf("%v has returned, and a crash undoes it: state %d of %d", kind, p.low, len(p.states))
	}
	last.equals(p.t, "behind a batch", table)
}

// After a crash at any point of a change, of growth or of recovery, the table must hold what has
// been committed, or in addition one more part of a batch.
func TestFitMappedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	dev := openHost(t)
	rng := rand.New(rand.NewPCG(3, 4))
	p := &power{t: t, dev: dev, dir: memoryDir(t), rng: rng, states: []model{{}}, deep: true}
	path := filepath.Join(memoryDir(t), "table")
	table, err := openMapped(dev, path, p)
	must(t, err)
	for round := range 12 {
		n := []int{1, 3, logOps, logOps + 5}[round%4]
		keys, vals := make([]uint64, n), make([]uint64, n)
		for i := range n {
			keys[i], vals[i] = rng.Uint64N(40), rng.Uint64()
		}
		kind := op.Put
		if round%3 == 2 {
			kind = op.Delete
		}
		p.change(table, kind, keys, vals)
	}
	all := make([]uint64, 40)
	for i := range all {
		all[i] = uint64(i)
	}
	p.change(table, op.Put, all, all)
	p.change(table, op.Delete, all[5:], nil) // more operations than fit in the log
	m := p.states[len(p.states)-1]
	must(t, table.Close())
	table, err = openMapped(dev, path, p)
	must(t, err)
	m.equals(t, "opened again", table)
	p.file, p.states, p.low = table.Leases.Current().Parts.(*file), []model{m, {}}, 0
	must(t, weft.NewMap[uint64, uint64](table).Clear(ctx))
	model{}.equals(t, "cleared", table)
	must(t, table.Close())
	if p.images < 1000 {
		t.Errorf("%d crashes only", p.images)
	}
	t.Log(p.images, "crashes")
}

// If a file is replaced while an iteration reads it, it must stay mapped until the iteration ends.
func TestFitMappedFileIsHeld(t *testing.T) {
	dev := openHost(t)
	table, err := openMapped(dev, filepath.Join(memoryDir(t), "table"), disk{})
	must(t, err)
	m := weft.NewMap[uint64, uint64](table)
	_, err = m.Put(ctx, []uint64{1, 2, 3}, []uint64{1, 2, 3})
	must(t, err)
	n := uint64(0)
	for k, v := range m.All() {
		if n++; k != v {
			t.Errorf("%d has value %d", k, v)
		}
		_, err := m.Put(ctx, []uint64{100 * n, 100*n + 1, 100*n + 2, 100*n + 3, 100*n + 4, 100*n + 5}, make([]uint64, 6))
		must(t, err)
		if maps := devicetest.Live(dev).Mappings; n > 1 && maps != 2 {
			t.Errorf("in the iteration there are %d files", maps)
		}
	}
	if maps := devicetest.Live(dev).Mappings; n != 3 || maps != 1 {
		t.Errorf("behind the iteration over %d pairs there are %d files", n, maps)
	}
	must(t, table.Close())
}

// failing is a medium that fails after a number of calls.
type failing struct {
	disk
	left int
}

var errMedium = errors.New("medium failed")

func (f *failing) persist(file *file, lo, hi int) error {
	if f.left--; f.left < 0 {
		return fmt.Errorf("persist: %w", errMedium)
	}
	return f.disk.persist(file, lo, hi)
}

// A failed medium must end changes, but not lookups. No call may report a change as durable unless
// it is.
func TestFitMediumFails(t *testing.T) {
	for left := 2; left < 12; left++ {
		dev := openHost(t)
		f := &failing{left: left}
		table, err := openMapped(dev, filepath.Join(memoryDir(t), "table"), f)
		must(t, err)
		m := weft.NewMap[uint64, uint64](table)
		var told []uint64
		for k := range uint64(8) {
			_, err = m.Put(ctx, []uint64{k}, []uint64{k})
			if err != nil {
				break
			}
			told = append(told, k)
		}
		var partial *weft.PartialError
		if !errors.Is(err, errMedium) || !errors.As(err, &partial) {
			t.Fatalf("with %d: %v", left, err)
		}
		if _, err := m.Delete(ctx, []uint64{0}, nil); !errors.Is(err, errMedium) {
			t.Errorf("with %d: a change of a broken table: %v", left, err)
		}
		if hits, err := m.Contains(ctx, told, nil); hits != len(told) || err != nil {
			t.Errorf("with %d: %d of %d are found: %v", left, hits, len(told), err)
		}
		if err := table.Close(); !errors.Is(err, errMedium) {
			t.Errorf("with %d: Close of a broken table: %v", left, err)
		}
	}
}
