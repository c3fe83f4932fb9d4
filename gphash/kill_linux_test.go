package gphash

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

var killRounds = flag.Int("kill-rounds", 50, "how often a writer is killed")

// killRole is the environment variable for the plan. It is set if the test's binary runs as the
// writer to be killed.
const killRole = "WEFT_GPHASH_KILLED"

func TestMain(m *testing.M) {
	if plan := os.Getenv(killRole); plan != "" {
		if err := killed([]byte(plan)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// killPlan determines the batches of a writer until it is killed. So the plan and the
// acknowledgments determine the expected contents.
type killPlan struct {
	Path             string
	Seed             uint64
	KeySize          int
	ValueSize        int
	Slots, Hashes    int
	Levels, Keyspace int
	First            int // number of its first batch
	Large            int // on average one of Large batches may be large
	Sitting          int // number of batches between opening and closing
	Resize           Resize
	Trap             uint64 // microseconds until a kernel traps; 0 if none does
	Atomic           bool
}

// killBatch is one call of a writer.
type killBatch struct {
	kinds        []weft.OpKind
	keyIndex     []int // by row: index of the key
	keys, values Bytes
	mixed        bool
}

func (p *killPlan) batch(n int) *killBatch {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(n)))
	size := 1 + rng.IntN(40)
	if rng.IntN(p.Large) == 0 {
		size = 1 + rng.IntN(3000)
	}
	b := &killBatch{kinds: make([]weft.OpKind, size), keyIndex: make([]int, size)}
	kind := []weft.OpKind{weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpGet}[rng.IntN(5)]
	b.mixed = kind == weft.OpGet
	for i := range size {
		b.kinds[i], b.keyIndex[i] = kind, rng.IntN(p.Keyspace)
		if b.mixed {
			b.kinds[i] = weft.OpKind(rng.IntN(4))
		}
		b.keys.Append(p.key(b.keyIndex[i]))
		b.values.Append(p.value(n, i))
	}
	return b
}

func (p *killPlan) key(i int) []byte { return denseKey(p.KeySize, i) }

func (p *killPlan) value(n, i int) []byte {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], uint64(n)<<32|uint64(i)+1)
	size := p.ValueSize
	if size == 0 {
		size = 8 + (n*7+i*13)%300
	}
	return bytes.Repeat(id[:], (size+7)/8)[:size]
}

func (b *killBatch) run(x *Index) (err error) {
	s := &Strings{x.core, x.engine}
	switch records := x.engine.records(); {
	case b.mixed && records:
		err = s.Apply(ctx, b.kinds, b.keys, b.values, &Bytes{}, nil)
	case b.mixed:
		err = x.Apply(ctx, b.kinds, b.keys.Data, b.values.Data, nil)
	case b.kinds[0] == weft.OpPut:
		_, err = putRows(x, b.keys, b.values)
	case b.kinds[0] == weft.OpPutNew && records:
		_, err = s.PutNew(ctx, b.keys, b.values, nil)
	case b.kinds[0] == weft.OpPutNew:
		_, err = x.PutNew(ctx, b.keys.Data, b.values.Data, nil)
	default:
		_, err = deleteRows(x, b.keys)
	}
	return err
}

// killed runs the writer. It announces its steps and acknowledges batches.
func killed(plan []byte) error {
	var p killPlan
	if err := json.Unmarshal(plan, &p); err != nil {
		return err
	}
	if p.Trap > 0 {
		return trapped(&p)
	}
	dev, _, err := auto.Open(cmp.Or(os.Getenv(devicetest.Variable), "cpu"))
	if err != nil {
		return err
	}
	for n := p.First; ; {
		// prepare batches in advance, so that most of the time is spent in the index
		batches := make([]*killBatch, p.Sitting)
		for i := range batches {
			batches[i] = p.batch(n + i)
		}
		x, err := p.open(dev)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := b.run(x); err != nil {
				return fmt.Errorf("batch %d: %w", n, err)
			}
			fmt.Println("done", n)
			n++
		}
		fmt.Println("close")
		if err := x.Close(); err != nil {
			return err
		}
	}
}

func (p *killPlan) open(dev device.Device) (x *Index, err error) {
	if _, err := os.Stat(p.Path); errors.Is(err, fs.ErrNotExist) {
		fmt.Println("create")
		o := Options{KeySize: p.KeySize, ValueSize: p.ValueSize, Slots: p.Slots, Hashes: p.Hashes, Levels: p.Levels,
			Capacity: 1, Size: killPool, Resize: p.Resize}
		if p.Atomic {
			o.AtomicBatch = 3000 // capacity for the largest batch
		}
		if p.KeySize > 0 && p.ValueSize > 0 {
			return Create(p.Path, dev, o)
		}
		s, err := CreateStrings(p.Path, dev, o)
		if err != nil {
			return nil, err
		}
		return &Index{s.core, s.engine}, nil
	}
	fmt.Println("open")
	x, report, err := p.recover(dev, OpenOptions{Resize: p.Resize})
	if err == nil && report.Damaged > 0 {
		err = fmt.Errorf("%q", report.Damage)
	}
	return x, err
}

// recover opens an existing pool. If the killed writer had kernels running, the system keeps its
// files open until the driver has stopped them. That may be after the end of the process. So
// recover retries.
func (p *killPlan) recover(dev device.Device, o OpenOptions) (x *Index, report *Report, err error) {
	for range 100 {
		if x, report, err = p.tryRecover(dev, o); !errors.Is(err, ErrLocked) {
			return x, report, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return x, report, err
}

func (p *killPlan) tryRecover(dev device.Device, o OpenOptions) (*Index, *Report, error) {
	if p.KeySize > 0 && p.ValueSize > 0 {
		return Open(ctx, p.Path, dev, o)
	}
	s, report, err := OpenStrings(ctx, p.Path, dev, o)
	if err != nil {
		return nil, report, err
	}
	return &Index{s.core, s.engine}, report, nil
}

// killPool is the size of a pool in bytes. It fits all keys, a level twice as large as they need,
// and two versions of the values of a batch.
const killPool = 24 << 20

// possible holds the values that a key may have, as batch and row in one number; 0: absent.
type possible []uint64

func (p possible) with(id uint64) possible {
	for _, is := range p {
		if is == id {
			return p
		}
	}
	return append(p[:len(p):len(p)], id)
}

// killTrial is a pool and its expected contents.
type killTrial struct {
	plan         killPlan
	rng          *rand.Rand
	state        []possible     // possible values by key
	acked        int            // number of acknowledged batches
	exists       bool           // the pool exists
	nInterrupted int            // number of batches interrupted since the last check
	counts       map[string]int // counts of events
}

func newKillTrial(path string, seed uint64, counts map[string]int) *killTrial {
	rng := rand.New(rand.NewPCG(seed, 11))
	shapes := []killPlan{
		{KeySize: 8, ValueSize: 64, Slots: 8, Hashes: 2, Levels: 2},
		{KeySize: 24, ValueSize: 100, Slots: 8, Hashes: 2, Levels: 2},
		{KeySize: 8, ValueSize: 8, Slots: 4, Hashes: 2, Levels: 4},
		{KeySize: 13, ValueSize: 500, Slots: 16, Hashes: 2, Levels: 1},
		{Slots: 8, Hashes: 2, Levels: 2},
		{ValueSize: 24, Slots: 4, Hashes: 2, Levels: 2},
	}
	tr := &killTrial{plan: shapes[rng.IntN(len(shapes))], rng: rng, counts: counts}
	tr.plan.Path, tr.plan.Seed, tr.plan.Keyspace = path, seed, 500+rng.IntN(5000)
	tr.plan.Atomic = rng.IntN(2) == 0
	tr.plan.Large = []int{1, 3, 20}[rng.IntN(3)]
	tr.state = make([]possible, tr.plan.Keyspace)
	for i := range tr.state {
		tr.state[i] = possible{0}
	}
	return tr
}

// applyBatch applies a batch to the state. An interrupted batch may have done each of its
// operations on a key or not, in their order. If it is atomic, it has done all or none.
func (tr *killTrial) applyBatch(n int, whole bool) {
	b := tr.plan.batch(n)
	possibleOf := map[int]possible{}
	for i, key := range b.keyIndex {
		before, id := tr.state[key], uint64(n)<<32|uint64(i)+1
		if _, ok := possibleOf[key]; !ok {
			possibleOf[key] = before
		}
		switch b.kinds[i] {
		case weft.OpPut:
			tr.state[key] = possible{id}
		case weft.OpDelete:
			tr.state[key] = possible{0}
		case weft.OpPutNew:
			var now possible
			for _, is := range before {
				if is == 0 {
					is = id
				}
				now = now.with(is)
			}
			tr.state[key] = now
		}
		if !whole && !tr.plan.Atomic {
			for _, is := range tr.state[key] {
				possibleOf[key] = possibleOf[key].with(is)
			}
		}
	}
	if !whole {
		for key, allowed := range possibleOf {
			for _, is := range tr.state[key] {
				allowed = allowed.with(is)
			}
			tr.state[key] = allowed
		}
	}
}

// round starts a writer, kills it, and updates the state.
func (tr *killTrial) round(t *testing.T) {
	t.Helper()
	tr.plan.Sitting = 1 + tr.rng.IntN(30)
	tr.plan.Resize = Resize(tr.rng.IntN(2))
	plan, err := json.Marshal(&tr.plan)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killRole+"="+string(plan))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	last := tr.killAtLine(t, cmd, out)
	cmd.Wait()
	tr.counts["killed behind "+last]++
	for n := tr.plan.First; n < tr.acked; n++ {
		tr.applyBatch(n, true)
	}
	if last != "start" && last != "close" {
		tr.applyBatch(tr.acked, false)
		tr.nInterrupted++
	}
	tr.acked++
	tr.plan.First = tr.acked
}

// killAtLine reads the output of a writer, kills the writer after a random line and a random delay,
// and returns the last line.
func (tr *killTrial) killAtLine(t *testing.T, cmd *exec.Cmd, out io.Reader) (last string) {
	target, remaining := "done", 1+tr.rng.IntN(40)
	switch tr.rng.IntN(8) {
	case 0:
		target, remaining = "close", 1
	case 1, 2:
		target, remaining = "open", 1+tr.rng.IntN(2)
	}
	if !tr.exists && tr.rng.IntN(2) == 0 {
		target, remaining = "create", 1
	}
	delay := time.Duration(tr.rng.Int64N(int64(2 * time.Millisecond)))
	if target != "done" {
		delay /= 1 << tr.rng.IntN(5)
	}
	last = "start"
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last, _, _ = strings.Cut(lines.Text(), " ")
		switch last {
		case "done":
			if _, err := fmt.Sscanf(lines.Text(), "done %d", &tr.acked); err != nil {
				t.Fatal(err)
			}
			tr.acked, tr.exists = tr.acked+1, true
		case "open", "close":
			tr.exists = true
		case "create":
		default:
			t.Fatalf("the writer says %q", lines.Text())
		}
		if overdue := tr.acked > tr.plan.First+60; last == target || overdue {
			if remaining--; remaining == 0 || overdue {
				time.AfterFunc(delay, func() { cmd.Process.Kill() })
			}
		}
	}
	return last
}

// check opens the pool and compares it with the possible states. The actual state becomes the
// expected one.
func (tr *killTrial) check(t *testing.T, dev device.Device) {
	t.Helper()
	x, report, err := tr.plan.recover(dev, OpenOptions{Verify: true, Resize: Resize(tr.rng.IntN(2))})
	if errors.Is(err, fs.ErrNotExist) && !tr.exists {
		return
	}
	must(t, err)
	if report.Damaged > 0 {
		t.Fatalf("damaged: %q", report.Damage)
	}
	tr.exists = true
	tr.count(report)
	var keys Bytes
	for i := range tr.state {
		keys.Append(tr.plan.key(i))
	}
	values, found := make([][]byte, len(tr.state)), make([]bool, len(tr.state))
	hits, err := getRows(x, keys, values, found)
	must(t, err)
	before, after := false, false // whether keys are as before and as after the interrupted batch
	for i, allowed := range tr.state {
		is, value := uint64(0), values[i]
		at := slices.IndexFunc(allowed, func(id uint64) bool {
			is = id
			return (id != 0) == found[i] && (id == 0 || bytes.Equal(value, tr.plan.value(int(id>>32), int(id&(1<<32-1))-1)))
		})
		if at < 0 {
			t.Fatalf("seed %d, %d batches: key %d: found %v, %x; it may be %x", tr.plan.Seed, tr.acked, i, found[i], value, allowed)
		}
		before, after = before || len(allowed) > 1 && at == 0, after || at > 0
		tr.state[i] = possible{is}
	}
	// if several batches were interrupted, only a part of them may be done
	if before && after && tr.plan.Atomic && tr.nInterrupted == 1 {
		t.Fatalf("seed %d, %d batches: half of an atomic batch is there", tr.plan.Seed, tr.acked)
	}
	if before && after {
		tr.counts["found half a batch"]++
	}
	tr.nInterrupted = 0
	if x.Len() != hits || report.Keys != uint64(hits) {
		t.Fatalf("%d keys are found, Len says %d, recovery %d", hits, x.Len(), report.Keys)
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
}

func (tr *killTrial) count(report *Report) {
	for event, happened := range map[string]bool{
		"unfinished": report.Unfinished > 0, "tombs": report.Tombs > 0, "moved": report.Moved > 0, "resizing": report.Resumed,
		"replayed": report.Replayed > 0, "torn": report.Torn,
	} {
		if happened {
			tr.counts["found "+event]++
		}
	}
}

// A writer is killed at any time. All acknowledged operations are done. Each key of the interrupted
// batch is as before the batch or after one of its operations, consistently if batches are atomic.
// No other key has changed.
func TestKill(t *testing.T) {
	conformance.SkipRaced(t, "nobody sees what it finds in processes that are killed")
	const rounds = 5 // rounds per pool, after which it no longer grows
	dev, counts := openCPU(t), map[string]int{}
	for n := 0; n < *killRounds; n += rounds {
		dir := memoryDir(t)
		tr := newKillTrial(filepath.Join(dir, "pool"), uint64(n), counts)
		for range min(rounds, *killRounds-n) {
			tr.round(t)
			// otherwise the next writer recovers the pool and is also killed
			if tr.rng.IntN(3) > 0 {
				tr.check(t, dev)
			}
		}
		tr.check(t, dev)
		must(t, os.RemoveAll(dir))
	}
	t.Log(counts)
}
