package durable

import (
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// newMap returns a constructor of maps on one core.
func newMap(t *testing.T) func() (*linear.Map[uint64, uint64], error) {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return func() (*linear.Map[uint64, uint64], error) { return linear.New[uint64, uint64](dev, nil) }
}

func openIn(t *testing.T, fs *memoryFS, make func() (*linear.Map[uint64, uint64], error), opts Options) *linear.Map[uint64, uint64] {
	t.Helper()
	opts, err := opts.check()
	if err != nil {
		t.Fatal(err)
	}
	m, err := open(t.Context(), fs, nopCloser{}, make, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// A full disk refuses a change before anything happens. The next change tries again.
func TestFullDisk(t *testing.T) {
	small(t)
	fs, ctx := newMemoryFS(nil), t.Context()
	m := openIn(t, fs, newMap(t), Options{})
	keys := []uint64{1, 2, 3}
	if _, err := m.Put(ctx, keys, keys); err != nil {
		t.Fatal(err)
	}
	fs.mu.Lock()
	fs.full = true
	fs.mu.Unlock()
	many := make([]uint64, 1000)
	for i := range many {
		many[i] = uint64(i)
	}
	for what, change := range map[string]func() error{
		"Put":      func() error { _, err := m.Put(ctx, many, many); return err },
		"Delete":   func() error { _, err := m.Delete(ctx, many, nil); return err },
		"Reduce":   func() error { _, err := m.Reduce(ctx, many, many, weft.Sum); return err },
		"GetOrPut": func() error { _, err := m.GetOrPut(ctx, slices.Clone(many), slices.Clone(many), nil); return err },
		"Assign":   func() error { _, err := m.Assign(ctx, many, slices.Clone(many)); return err },
	} {
		if err := change(); !errors.Is(err, errDisk) || errors.Is(err, ErrFailed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := maps.Collect(m.All()); len(got) != 3 {
		t.Errorf("%d pairs after changes that were refused", len(got))
	}
	fs.mu.Lock()
	fs.full = false
	fs.mu.Unlock()
	if _, err := m.Put(ctx, many, many); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openIn(t, fs, newMap(t), Options{})
	if m.Len() != len(many) {
		t.Errorf("%d pairs", m.Len())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A write that fails ends the store: its changes and lookups fail until it is opened again.
func TestFailedWrite(t *testing.T) {
	for _, reads := range []bool{false, true} {
		fs, ctx := newMemoryFS(nil), t.Context()
		m := openIn(t, fs, newMap(t), Options{ReadAfterFailure: reads})
		one := []uint64{1}
		if _, err := m.Put(ctx, one, one); err != nil {
			t.Fatal(err)
		}
		fs.mu.Lock()
		fs.badWrite = true
		fs.mu.Unlock()
		if _, err := m.Put(ctx, []uint64{2}, one); !errors.Is(err, ErrFailed) && !errors.Is(err, errDisk) {
			t.Errorf("the change returns %v", err)
		}
		fs.mu.Lock()
		fs.badWrite = false
		fs.mu.Unlock()
		if _, err := m.Put(ctx, one, one); !errors.Is(err, ErrFailed) {
			t.Errorf("the next change returns %v", err)
		}
		if _, err := m.Get(ctx, one, make([]uint64, 1), nil); errors.Is(err, ErrFailed) == reads {
			t.Errorf("a lookup returns %v, with ReadAfterFailure %v", err, reads)
		}
		if info, err := Status(m); err != nil || !errors.Is(info.Failure, ErrFailed) {
			t.Errorf("Status is %+v, %v", info, err)
		}
		if err := m.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("Close returns %v", err)
		}
		m = openIn(t, fs, newMap(t), Options{})
		if m.Len() != 1 {
			t.Errorf("%d pairs after that", m.Len())
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Any call of the file system may fail once, in a checkpoint, a change or Close. What had been
// promised is there, and the store opens again.
func TestFailedCalls(t *testing.T) {
	small(t)
	make, ctx := newMap(t), t.Context()
	for call := 1; ; call++ {
		fs := newMemoryFS(nil)
		m := openIn(t, fs, make, Options{ReadAfterFailure: true})
		want := map[uint64]uint64{}
		put := func(k uint64) {
			if _, err := m.Put(ctx, []uint64{k}, []uint64{k}); err == nil {
				want[k] = k
			}
		}
		put(1)
		fs.mu.Lock()
		fs.failCall = call
		fs.mu.Unlock()
		for k := uint64(2); k < 6; k++ {
			_ = Checkpoint(ctx, m)
			put(k)
		}
		_ = m.Close()
		fs.mu.Lock()
		over := fs.failCall > 0
		fs.failCall = 0
		fs.mu.Unlock()
		// The process may also end at any moment. Whatever is there then can be opened.
		d := newDisk()
		for i, e := range fs.events {
			if d.apply(e); i < fs.setup+8 || e.kind == write {
				continue
			}
			m, err := open(ctx, newMemoryFS(d.written()), nopCloser{}, make, Options{LogLimit: DefaultLogLimit, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatalf("call %d fails, and the process ends at event %d: %v", call, i, err)
			}
			m.Close()
		}
		for what, files := range map[string]map[string][]byte{"the process": fs.files(), "power": onDisk(fs)} {
			m = openIn(t, newMemoryFS(files), make, Options{})
			got := maps.Collect(m.All())
			for k := range want {
				if got[k] != k {
					t.Errorf("call %d fails, then %s: %v, without %d", call, what, got, k)
				}
			}
			if err := errors.Join(Checkpoint(ctx, m), m.Close()); err != nil {
				t.Errorf("call %d fails, then %s: %v", call, what, err)
			}
		}
		if over {
			t.Logf("%d calls", call)
			return
		}
	}
}

// Repair drops the changes from the first damaged one on, and says so. Then the store is whole.
func TestRepair(t *testing.T) {
	small(t)
	fs, ctx := newMemoryFS(nil), t.Context()
	m := openIn(t, fs, newMap(t), Options{})
	for i := range uint64(20) {
		if _, err := m.Put(ctx, []uint64{i}, []uint64{i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	log := fs.names[segmentName(1)]
	log.data[segmentHeader+5*(frameHeader+16)+3] ^= 1
	opts, _ := Options{}.check()
	if _, err := open(ctx, fs, nopCloser{}, newMap(t), opts); !errors.Is(err, weft.ErrCorrupt) || !strings.Contains(err.Error(), segmentName(1)) || !strings.Contains(err.Error(), "Repair") {
		t.Fatalf("the damaged store: %v", err)
	}
	m = openIn(t, fs, newMap(t), Options{Repair: true})
	info, err := Status(m)
	if err != nil || info.Recovery.Lost != 15 || info.Recovery.Changes != 5 || info.Recovery.Damage == "" || m.Len() != 5 {
		t.Errorf("%d pairs, recovery %+v, %v", m.Len(), info.Recovery, err)
	}
	if _, err := m.Put(ctx, []uint64{100}, []uint64{100}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openIn(t, fs, newMap(t), Options{})
	if m.Len() != 6 {
		t.Errorf("%d pairs after the repair", m.Len())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// Repair of a checkpoint keeps the pairs before the damage, for good.
func TestRepairCheckpoint(t *testing.T) {
	fs, ctx := newMemoryFS(nil), t.Context()
	m := openIn(t, fs, newMap(t), Options{})
	keys := make([]uint64, 1<<19) // two parts of a checkpoint
	for i := range keys {
		keys[i] = uint64(i)
	}
	if _, err := m.Put(ctx, keys, keys); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Checkpoint(ctx, m), m.Close()); err != nil {
		t.Fatal(err)
	}
	data := fs.names[checkpointName(1)].data
	data[len(data)-100] ^= 1
	opts, _ := Options{}.check()
	if _, err := open(ctx, fs, nopCloser{}, newMap(t), opts); !errors.Is(err, weft.ErrCorrupt) || !strings.Contains(err.Error(), checkpointName(1)) {
		t.Fatalf("the damaged store: %v", err)
	}
	left := 0
	for _, repair := range []bool{true, false} {
		m = openIn(t, fs, newMap(t), Options{Repair: repair})
		info, err := Status(m)
		if err != nil || m.Len() == 0 || m.Len() == len(keys) || (info.Recovery.Damage != "") != repair || !repair && m.Len() != left {
			t.Errorf("repair %v: %d pairs, %d before, recovery %+v, %v", repair, m.Len(), left, info.Recovery, err)
		}
		left = m.Len()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Changes that wait at the same time share a sync, and each is on the disk when it returns.
func TestGroupCommit(t *testing.T) {
	fs, ctx := newMemoryFS(nil), t.Context()
	m := openIn(t, fs, newMap(t), Options{LogLimit: 1 << 14})
	const goroutines, rounds = 16, 50
	var wait sync.WaitGroup
	for g := range uint64(goroutines) {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(g, 0))
			for i := range uint64(rounds) {
				key := []uint64{g<<32 | i}
				if _, err := m.Put(ctx, key, key); err != nil {
					t.Error(err)
				}
				if rng.IntN(20) == 0 {
					if err := Checkpoint(ctx, m); err != nil {
						t.Error(err)
					}
				}
				if info, err := Status(m); err != nil || info.Synced > info.Frames {
					t.Errorf("%+v, %v", info, err)
				}
			}
		})
	}
	wait.Wait()
	files := onDisk(fs)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openIn(t, newMemoryFS(files), newMap(t), Options{})
	if m.Len() != goroutines*rounds {
		t.Errorf("%d pairs are on the disk, of %d that have been put", m.Len(), goroutines*rounds)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// onDisk returns what a power failure leaves that keeps nothing that is not synced.
func onDisk(fs *memoryFS) map[string][]byte {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	d := newDisk()
	for _, e := range fs.events {
		d.apply(e)
	}
	files := map[string][]byte{}
	for name, n := range d.names {
		files[name] = d.files[n].data
	}
	return files
}

// With Interval, a change is on the disk soon after it has returned.
func TestInterval(t *testing.T) {
	fs, ctx := newMemoryFS(nil), t.Context()
	m := openIn(t, fs, newMap(t), Options{Sync: Interval(time.Millisecond)})
	defer m.Close()
	if _, err := m.Put(ctx, []uint64{1}, []uint64{2}); err != nil {
		t.Fatal(err)
	}
	for {
		info, err := Status(m)
		if err != nil {
			t.Fatal(err)
		}
		if info.Synced == info.Frames {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
