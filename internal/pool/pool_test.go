package pool

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// testSize is the size of test pools: three levels and two areas fit.
const testSize = DataStart + 32*Page

var boot = BootID{0xb0, 7}

// sample returns a superblock with a value in every field.
func sample() *Superblock {
	s := &Superblock{
		UUID: [16]byte{1, 2, 3, 15: 16}, Created: time.Unix(1_700_000_000, 123_456_789).UTC(), Tool: "weft 1.2.3",
		Geometry: Geometry{KeySize: 8, ValueSize: 128, Slots: 8, Hashes: 2, Levels: 2, HashID: SipHash, Unit: 512, Seed: [2]uint64{7, 9}},
		Size:     testSize, Bottom: 1, Top: 2, Epoch: 5, Boot: boot,
	}
	s.Levels[1] = Level{Offset: DataStart, Length: 2 * Page, State: Live}
	s.Levels[2] = Level{Offset: DataStart + 2*Page, Length: 4 * Page, State: Live}
	s.Areas[0] = Area{Offset: DataStart + 16*Page, Length: 8 * Page, Used: 12345}
	s.Areas[3] = Area{Offset: DataStart + 24*Page, Length: 8 * Page}
	return s
}

// newFormatted returns a pool in memory, and the memory.
func newFormatted(t testing.TB) (*Pool, []byte) {
	t.Helper()
	mapped := make([]byte, testSize)
	p, err := Format(pm.New(mapped, nil), sample())
	if err != nil {
		t.Fatal(err)
	}
	return p, mapped
}

// Committed superblocks read back, and commits alternate between the copies.
func TestCommit(t *testing.T) {
	p, mapped := newFormatted(t)
	want := *sample()
	want.Generation = 2
	if got := p.Superblock(); got != want || !p.WasClean() {
		t.Fatalf("formatted: %+v, want %+v", got, want)
	}
	for i := range uint64(5) {
		if err := p.Commit(func(s *Superblock) { s.Epoch = 100 + i; s.Areas[0].Used += 8; s.Generation = 77 }); err != nil {
			t.Fatal(err)
		}
		want.Epoch, want.Areas[0].Used, want.Generation = 100+i, want.Areas[0].Used+8, 3+i
		reopened, err := OpenMemory(pm.New(mapped, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := reopened.Superblock(); got != want || p.Superblock() != want || reopened.WasClean() || reopened.StaleCopyErr() != nil {
			t.Fatalf("generation %d is found as %+v, want %+v; the other copy: %v", 3+i, got, want, reopened.StaleCopyErr())
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	reopened, err := OpenMemory(p.Memory())
	if err != nil || !reopened.WasClean() || !reopened.Superblock().Clean {
		t.Fatalf("after Close: %v, clean: %v", err, reopened.WasClean())
	}
	generation := reopened.Superblock().Generation
	if err := p.Close(); err != nil || p.Abandon() != nil {
		t.Fatalf("second Close: %v", err)
	}
	if reopened, _ = OpenMemory(p.Memory()); reopened.Superblock().Generation != generation {
		t.Fatal("the second Close wrote")
	}
	if err := p.Commit(func(*Superblock) {}); !errors.Is(err, op.ErrClosed) {
		t.Fatalf("Commit after Close: %v", err)
	}
}

// A refused commit changes nothing.
func TestCommitRefuses(t *testing.T) {
	for name, change := range map[string]func(*Superblock){
		"geometry": func(s *Superblock) { s.Geometry.Seed[1]++ }, "size": func(s *Superblock) { s.Size += Page },
		"identity": func(s *Superblock) { s.UUID[0]++ }, "created": func(s *Superblock) { s.Created = s.Created.Add(1) },
		"overlap": func(s *Superblock) { s.Levels[2].Offset -= Page }, "epoch": func(s *Superblock) { s.Epoch = math.MaxUint64 },
	} {
		p, mapped := newFormatted(t)
		before, was := string(mapped[:DataStart]), p.Superblock()
		if err := p.Commit(change); !errors.Is(err, op.ErrOptions) || errors.Is(err, op.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if string(mapped[:DataStart]) != before || p.Superblock() != was {
			t.Errorf("%s: the pool has changed", name)
		}
	}
}

// Abandon leaves the pool unclean.
func TestAbandon(t *testing.T) {
	p, _ := newFormatted(t)
	if err := p.Abandon(); err != nil {
		t.Fatal(err)
	}
	if reopened, err := OpenMemory(p.Memory()); err != nil || reopened.WasClean() {
		t.Fatalf("abandoned: %v, clean: %v", err, reopened.WasClean())
	}
}

// Format refuses an illegal superblock at once.
func TestFormatRefuses(t *testing.T) {
	for name, change := range map[string]func(*Superblock){
		"variable keys":   func(s *Superblock) { s.Geometry.KeySize = 0 },
		"variable values": func(s *Superblock) { s.Geometry.ValueSize = 0 },
		"tool":            func(s *Superblock) { s.Tool = "a\x1b[2J" },
		"long tool":       func(s *Superblock) { s.Tool = "123456789012345678901234567890123" },
		"created":         func(s *Superblock) { s.Created = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no level":        func(s *Superblock) { s.Levels[1] = Level{} },
	} {
		s := sample()
		change(s)
		mapped := make([]byte, testSize)
		if _, err := Format(pm.New(mapped, nil), s); !errors.Is(err, op.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
		if *(*block)(mapped) != (block{}) {
			t.Errorf("%s: something was written", name)
		}
	}
	for _, size := range []int{0, Page, DataStart - Page} {
		if _, err := OpenMemory(pm.New(make([]byte, size), nil)); !errors.Is(err, op.ErrCorrupt) {
			t.Errorf("a memory of %d bytes: %v", size, err)
		}
	}
	if _, err := Format(pm.New(make([]byte, Page), nil), sample()); !errors.Is(err, op.ErrOptions) || !strings.Contains(err.Error(), "size 4096: not") {
		t.Errorf("Format of too small a memory: %v", err)
	}
}

// A zero time stays zero.
func TestNoTime(t *testing.T) {
	s := sample()
	s.Created = time.Time{}
	p, err := Format(pm.New(make([]byte, testSize), nil), s)
	if err != nil {
		t.Fatal(err)
	}
	if reopened, err := OpenMemory(p.Memory()); err != nil || !reopened.Superblock().Created.IsZero() {
		t.Errorf("%v", err)
	}
}

// disk is a file with a sync that fails.
type disk struct {
	p      *Pool
	synced []bool // whether the superblock was clean at each sync
	fails  int    // number of the sync that fails
	closed int
}

var errDisk = errors.New("disk failed")

func (d *disk) sync() error {
	d.synced = append(d.synced, d.p.last.Clean)
	if len(d.synced) == d.fails {
		return errDisk
	}
	return nil
}

func (d *disk) close() error { d.closed++; return nil }

// The clean mark is written after a sync of the data. The mark of an opened pool is synced before
// any change. If a disk fails, the pool is left unclean, and closed.
func TestDiskFails(t *testing.T) {
	for fails, want := range map[int][]bool{0: {false, false, true}, 1: {false}, 2: {false, false}, 3: {false, false, true}} {
		p, _ := newFormatted(t)
		d := &disk{p: p, fails: fails}
		p.file = d
		err := p.markUnclean()
		if err == nil {
			err = p.Close()
		}
		if errors.Is(err, errDisk) != (fails > 0) || err != nil && fails == 0 {
			t.Errorf("sync %d fails: %v", fails, err)
		}
		if reopened, err := OpenMemory(p.Memory()); err != nil || reopened.WasClean() != (len(want) == 3) || !slices.Equal(d.synced, want) {
			t.Errorf("sync %d fails: %v, clean %v, synced %v, want %v", fails, err, reopened.WasClean(), d.synced, want)
		}
		if p.Close(); fails != 1 && d.closed != 1 {
			t.Errorf("sync %d fails: closed %d times", fails, d.closed)
		}
	}
}
