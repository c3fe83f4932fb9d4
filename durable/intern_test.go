package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/intern"
)

// itemKinds draws columns of n rows for each kind of tables of ids. About domain rows differ.
var itemKinds = map[string]func(rng *rand.Rand, n, domain int) []column.Column{
	"strings": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{column.OfStrings(drawStrings(rng, n, domain))}
	},
	"codes": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{drawCodes(rng, n, domain)}
	},
	"strings with nulls": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{drawNulls(rng, column.OfStrings(drawStrings(rng, n, domain)))}
	},
	"integers": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{column.Of(drawNumbers[int64](rng, n, domain))}
	},
	"numbers with NaN and nulls": func(rng *rand.Rand, n, domain int) []column.Column {
		values := drawNumbers[float64](rng, n, domain)
		for i, v := range values {
			switch v {
			case 1:
				values[i] = math.NaN()
			case 2:
				values[i] = math.Copysign(0, -1)
			}
		}
		return []column.Column{drawNulls(rng, column.Of(values))}
	},
	"words": func(rng *rand.Rand, n, domain int) []column.Column {
		c := column.Of(drawNumbers[int32](rng, n, domain))
		return []column.Column{drawNulls(rng, c), column.Of(drawNumbers[uint8](rng, n, 3))}
	},
	"one width": func(rng *rand.Rand, n, domain int) []column.Column {
		c := column.Of(drawNumbers[float32](rng, n, 3))
		return []column.Column{column.Of(drawNumbers[uint64](rng, n, domain)), drawNulls(rng, c)}
	},
	"numbers and strings": func(rng *rand.Rand, n, domain int) []column.Column {
		first, last := drawStrings(rng, n, domain), drawStrings(rng, n, 3)
		return []column.Column{drawNulls(rng, column.OfStrings(first)),
			column.Of(drawNumbers[int16](rng, n, 3)), drawNulls(rng, column.OfStrings(last))}
	},
	"several codes": func(rng *rand.Rand, n, _ int) []column.Column {
		return []column.Column{drawNulls(rng, drawCodes(rng, n, 5)), drawCodes(rng, n, 7),
			drawNulls(rng, drawCodes(rng, n, 3))}
	},
}

func drawStrings(rng *rand.Rand, n, domain int) (s []string) {
	for range n {
		k := rng.IntN(domain)
		s = append(s, fmt.Sprintf("%*d", 1+k%30, k))
	}
	return s
}

func drawCodes(rng *rand.Rand, n, domain int) column.Column {
	dict := column.OfStrings(drawStrings(rng, min(n, domain), domain))
	codes := make([]uint32, n)
	for i := range codes {
		codes[i] = uint32(rng.IntN(dict.Len()))
	}
	c, err := column.OfCodes(codes, dict)
	if err != nil {
		panic(err)
	}
	return c
}

type drawn interface {
	int16 | int32 | int64 | uint8 | uint64 | float32 | float64
}

func drawNumbers[T drawn](rng *rand.Rand, n, domain int) (v []T) {
	for range n {
		v = append(v, T(rng.IntN(domain)))
	}
	return v
}

func drawNulls(rng *rand.Rand, c column.Column) column.Column {
	valid := make([]bool, c.Len())
	for i := range valid {
		valid[i] = rng.IntN(5) > 0
	}
	return c.WithValid(column.OfBools(valid))
}

// addItems adds rows of a kind of itemKinds.
func addItems(t *intern.Table, kind string, cols []column.Column, ids []uint32) (int, error) {
	if kind == "strings" || kind == "codes" {
		return t.Column(context.Background(), cols[0], ids)
	}
	return t.Rows(context.Background(), cols, ids)
}

// idSubject is a table of ids.
type idSubject struct {
	*intern.Table
	kind string
}

func newIDSubject(dev device.Device, kind string) (subject, error) {
	t, err := intern.New(dev, nil)
	return idSubject{t, kind}, err
}

func (s idSubject) content() string {
	cols, text := s.Columns(0, s.Len()), ""
	for i := range s.Len() {
		for _, c := range cols {
			text += fmt.Sprintf("%v ", c.Any(i))
		}
		text += "\n"
	}
	return text
}

func (s idSubject) change(rng *rand.Rand) error {
	keys, _ := randomKeys(rng)
	n := len(keys)
	_, err := addItems(s.Table, s.kind, itemKinds[s.kind](rng, n, 100), make([]uint32, n))
	return err
}

// idStore is a folder with a store of ids, which opens on a device with the options of a table.
type idStore struct {
	*memoryFS
	dev   device.Device
	table *intern.Options
}

func (s idStore) open(t testing.TB, opts Options) (*intern.Table, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	empty := func() (*intern.Table, error) { return intern.New(s.dev, s.table) }
	return open(t.Context(), s.memoryFS, nopCloser{}, empty, opts)
}

func (s idStore) mustOpen(t testing.TB, opts Options) *intern.Table {
	t.Helper()
	table, err := s.open(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// mustKnow opens what a folder holds, and compares it with known ids.
func (s idStore) mustKnow(t *testing.T, files map[string][]byte, known map[string]uint32) {
	t.Helper()
	s.memoryFS = newMemoryFS(files)
	table := s.mustOpen(t, Options{})
	defer table.Close()
	for k, id := range known {
		if got := table.At(id); string(got) != k {
			t.Errorf("id %d of %d is %q, and was returned for %q", id, table.Len(), got, k)
		}
	}
}

// savedIDs returns the stream of a table.
func savedIDs(t testing.TB, table *intern.Table) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := table.Save(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Rows of any kind have the ids that they have in a table that is not durable, whether the store is
// closed, power fails, or a checkpoint comes between them.
func TestIDs(t *testing.T) {
	small(t)
	var dev device.Device = devicetest.OpenCPU(t, 2)
	if os.Getenv("WEFT_DEVICE") != "" {
		dev = devicetest.Open(t)
	}
	for kind, draw := range itemKinds {
		t.Run(kind, func(t *testing.T) {
			rng, fs := rand.New(rand.NewPCG(1, 2)), idStore{newMemoryFS(nil), dev, nil}
			plain, err := intern.New(dev, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			opts := Options{LogLimit: 1 << 15}
			table := fs.mustOpen(t, opts)
			for range 60 {
				n, domain := 1+rng.IntN(30), 1<<rng.IntN(12)
				if rng.IntN(5) == 0 {
					n = 1200 // dictionaries have codes only from 1024 rows on
				}
				cols, want, got := draw(rng, n, domain), make([]uint32, n), make([]uint32, n)
				fresh, err := addItems(plain, kind, cols, want)
				if err != nil {
					t.Fatal(err)
				}
				added, err := addItems(table, kind, cols, got)
				if added != fresh || err != nil || !slices.Equal(got, want) {
					t.Fatalf("%d added, %v, want %d; ids %d, want %d", added, err, fresh, got, want)
				}
				switch rng.IntN(8) {
				case 0:
					err = Checkpoint(t.Context(), table)
				case 1:
					err = table.Close()
					table = fs.mustOpen(t, opts)
				case 2:
					files := onDisk(fs.memoryFS)
					err = table.Close()
					fs.memoryFS = newMemoryFS(files)
					table = fs.mustOpen(t, opts)
				}
				if err != nil || savedIDs(t, table) != savedIDs(t, plain) {
					t.Fatalf("%d keys, want %d, %v", table.Len(), plain.Len(), err)
				}
			}
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// idWriters add strings from a few goroutines, and note the ids that calls have returned.
type idWriters struct {
	mu   sync.Mutex
	ids  map[string]uint32
	wait sync.WaitGroup
}

func (w *idWriters) start(t *testing.T, table *intern.Table, goroutines, batches int) {
	w.ids = map[string]uint32{}
	for range goroutines {
		w.wait.Go(func() {
			rng := rand.New(rand.NewPCG(7, 7)) // all add the same keys
			for i := range batches {
				keys := drawStrings(rng, 1+rng.IntN(9), 10*(i+1))
				ids := make([]uint32, len(keys))
				if _, err := table.Strings(t.Context(), keys, ids); err != nil {
					t.Error(err)
				}
				w.mu.Lock()
				for i, k := range keys {
					if id, ok := w.ids[k]; ok && id != ids[i] {
						t.Errorf("%q has ids %d and %d", k, id, ids[i])
					}
					w.ids[k] = ids[i]
				}
				w.mu.Unlock()
			}
		})
	}
}

// known returns the ids that calls have returned so far.
func (w *idWriters) known() map[string]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ids)
}

// Calls that wait for the same keys return ids that a power failure does not take, also while
// checkpoints are written.
func TestIDsTogether(t *testing.T) {
	fs, w := idStore{newMemoryFS(nil), devicetest.OpenCPU(t, 2), nil}, &idWriters{}
	table := fs.mustOpen(t, Options{LogLimit: 1 << 13})
	w.start(t, table, 3, 120)
	ended := make(chan struct{})
	go func() {
		w.wait.Wait()
		close(ended)
	}()
	for i, running := 0, true; running; i++ {
		if i%3 == 0 {
			if err := Checkpoint(t.Context(), table); err != nil {
				t.Error(err)
			}
		}
		known := w.known()
		fs.mustKnow(t, onDisk(fs.memoryFS), known)
		select {
		case <-ended:
			running = false
		default:
		}
	}
	fs.mustKnow(t, onDisk(fs.memoryFS), w.known())
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

// Close waits for a checkpoint, or ends it.
func TestIDsCloseInCheckpoint(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for i := range 30 {
		fs, w := idStore{newMemoryFS(nil), dev, nil}, &idWriters{}
		table := fs.mustOpen(t, Options{LogLimit: 1 << 12})
		w.start(t, table, 1, i)
		w.wait.Wait()
		done := make(chan error, 1)
		go func() { done <- Checkpoint(context.Background(), table) }()
		if err := errors.Join(table.Close(), table.Close()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil && !errors.Is(err, weft.ErrClosed) {
			t.Error(err)
		}
		_, err := table.Strings(t.Context(), []string{"x"}, make([]uint32, 1))
		if !errors.Is(err, weft.ErrClosed) {
			t.Error(err)
		}
		fs.mustKnow(t, fs.files(), w.known())
	}
}

// Any call of the file system may fail once. Ids that were returned are there, whether the process
// ends or power fails.
func TestIDsFailedCalls(t *testing.T) {
	small(t)
	dev := devicetest.OpenCPU(t, 1)
	for call := 1; ; call++ {
		fs, known := idStore{newMemoryFS(nil), dev, nil}, map[string]uint32{}
		table := fs.mustOpen(t, Options{})
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 6 {
			if i == 1 {
				fs.mu.Lock()
				fs.failCall = call
				fs.mu.Unlock()
			}
			keys := drawStrings(rng, 5, 100)
			ids := make([]uint32, len(keys))
			if _, err := table.Strings(t.Context(), keys, ids); err == nil {
				for i, k := range keys {
					known[k] = ids[i]
				}
			} else if slices.Max(ids) > 0 {
				t.Errorf("ids %d of a call that returned %v", ids, err)
			}
			_ = Checkpoint(t.Context(), table)
		}
		_ = table.Close()
		fs.mu.Lock()
		over := fs.failCall > 0
		fs.failCall = 0
		fs.mu.Unlock()
		for _, files := range []map[string][]byte{fs.files(), onDisk(fs.memoryFS)} {
			fs.mustKnow(t, files, known)
		}
		if over {
			return
		}
	}
}

// A write that fails ends the store. Ids that are not on the disk may then be given to other keys.
func TestIDsFailedWrite(t *testing.T) {
	fs := idStore{newMemoryFS(nil), devicetest.OpenCPU(t, 1), nil}
	table := fs.mustOpen(t, Options{})
	ids, found := make([]uint32, 1), make([]bool, 1)
	add := func(key string) error {
		_, err := table.Strings(t.Context(), []string{key}, ids)
		return err
	}
	bad := func(b bool) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.badWrite = b
	}
	if err := add("a"); err != nil {
		t.Fatal(err)
	}
	bad(true)
	if err := add("b"); !errors.Is(err, ErrFailed) || ids[0] != 0 {
		t.Errorf("the change returns %v", err)
	}
	bad(false)
	for _, key := range []string{"a", "b", "c"} {
		if err := add(key); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: the next change returns %v", key, err)
		}
	}
	_, err := table.FindStrings(t.Context(), []string{"b"}, ids, found)
	if !errors.Is(err, ErrFailed) || found[0] {
		t.Errorf("a lookup returns %v, %v", found, err)
	}
	if err := table.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close returns %v", err)
	}
	table = fs.mustOpen(t, Options{})
	if err := add("c"); err != nil || ids[0] != 1 || table.Len() != 2 {
		t.Errorf("id %d of %d, %v", ids[0], table.Len(), err)
	}
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

// A call that MaxBytes ends midway leaves the keys before its end. The full table opens again with
// the same limit, and not with a much smaller one.
func TestIDsMaxBytes(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const limit = 400_000
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 5))
		fs := idStore{newMemoryFS(nil), dev, &intern.Options{MaxBytes: limit}}
		table := fs.mustOpen(t, Options{})
		keys := drawStrings(rng, 100_000, 1<<20)
		ids := make([]uint32, len(keys))
		_, err := table.Strings(t.Context(), keys, ids)
		var p *weft.PartialError
		if !errors.As(err, &p) || !errors.Is(err, weft.ErrFull) || p.Done == 0 {
			t.Fatal(err)
		}
		if seed%2 == 0 {
			if err := Checkpoint(t.Context(), table); err != nil {
				t.Fatal(err)
			}
		}
		saved := savedIDs(t, table)
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 { // of different seeds
			table = fs.mustOpen(t, Options{})
			if savedIDs(t, table) != saved {
				t.Error("other keys")
			}
			again := make([]uint32, p.Done)
			_, err := table.Strings(t.Context(), keys[:p.Done], again)
			if err != nil || !slices.Equal(again, ids[:p.Done]) {
				t.Errorf("the rows that were done have other ids, %v", err)
			}
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
		}
		fs.table.MaxBytes /= 2
		_, err = fs.open(t, Options{})
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "too small for the") {
			t.Errorf("with half of the memory: %v", err)
		}
	}
}

// Repair of a damaged checkpoint drops the keys after the damage, and those of the log, for good.
func TestIDsRepair(t *testing.T) {
	fs := idStore{newMemoryFS(nil), devicetest.OpenCPU(t, 1), nil}
	table := fs.mustOpen(t, Options{})
	keys := drawStrings(rand.New(rand.NewPCG(1, 1)), 150_000, 1<<20) // three frames
	_, err := table.Strings(t.Context(), keys, make([]uint32, len(keys)))
	if err = errors.Join(err, Checkpoint(t.Context(), table)); err != nil {
		t.Fatal(err)
	}
	before := table.Len()
	_, err = table.Strings(t.Context(), []string{"later"}, make([]uint32, 1))
	if err = errors.Join(err, table.Close()); err != nil {
		t.Fatal(err)
	}
	data := fs.names[checkpointName(1)].data
	data[len(data)/2] ^= 1
	if _, err := fs.open(t, Options{}); !errors.Is(err, weft.ErrCorrupt) {
		t.Fatalf("the damaged store: %v", err)
	}
	left := 0
	for _, repair := range []bool{true, false} {
		table = fs.mustOpen(t, Options{Repair: repair})
		info, err := Status(table)
		n, lost := table.Len(), info.Recovery.LostPairs
		if err != nil || n == 0 || repair && n+lost != before || !repair && n != left {
			t.Errorf("repair %v: %d keys of %d, %d lost, %v", repair, n, before, lost, err)
		}
		left = table.Len()
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
