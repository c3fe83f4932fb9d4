package durable_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

// counted opens a store of numbers, to which a goroutine adds 0, 1, 2, … until stop returns.
func counted(t *testing.T, dir string, empty func() (*linear.Set[uint64], error)) (added *atomic.Int64, stop func()) {
	t.Helper()
	s, err := durable.Open(ctx, dir, empty, durable.Options{LogLimit: 1 << 15})
	if err != nil {
		t.Fatal(err)
	}
	added, ended, end := new(atomic.Int64), make(chan error, 1), make(chan struct{})
	go func() {
		for i := uint64(0); ; i++ {
			select {
			case <-end:
				ended <- s.Close()
				return
			default:
			}
			if _, err := s.Add(ctx, []uint64{i}, nil); err != nil {
				ended <- errors.Join(err, s.Close())
				return
			}
			added.Store(int64(i) + 1)
		}
	}()
	return added, func() {
		t.Helper()
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A backup of an open store has every change that had returned, and a prefix of the later ones. So
// does what is restored from it.
func TestBackup(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	empty := func() (*linear.Set[uint64], error) { return linear.NewSet[uint64](dev, nil) }
	store := filepath.Join(dir, "store")
	added, stop := counted(t, store, empty)
	defer stop()
	for i := range 20 {
		for before := added.Load(); added.Load() < before+50; {
		}
		least := int(added.Load())
		backup := filepath.Join(dir, "backups", string(rune('a'+i)))
		restored := filepath.Join(dir, "restored", string(rune('a'+i)))
		if err := errors.Join(durable.Backup(ctx, store, backup), durable.Restore(ctx, backup, restored)); err != nil {
			t.Fatal(err)
		}
		most := int(added.Load()) + 1
		for _, dir := range []string{backup, restored} {
			s, _, err := durable.Read(ctx, dir, empty, durable.Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for k := range s.All() {
				n = max(n, int(k)+1)
			}
			if n != s.Len() || n < least || n > most {
				t.Errorf("%s has %d numbers up to %d, want %d to %d", dir, s.Len(), n, least, most)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		s, err := durable.Open(ctx, restored, empty, durable.Options{}) // a store again
		if err == nil {
			_, err = s.Add(ctx, []uint64{1 << 40}, nil)
			err = errors.Join(err, s.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// Backups of what is no store, into what is no empty folder, of a damaged log, and without time.
func TestBackupErrors(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	empty := func() (*linear.Set[uint64], error) { return linear.NewSet[uint64](dev, nil) }
	store := filepath.Join(dir, "store")
	added, stop := counted(t, store, empty)
	for added.Load() < 100 {
	}
	stop()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := durable.Backup(ctx, dir, at("a")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("of no store: %v", err)
	}
	if _, err := os.Stat(at("a")); err == nil {
		t.Error("a backup of no store has left a folder")
	}
	if err := durable.Backup(ctx, store, dir); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("into a folder with files: %v", err)
	}
	if err := durable.Restore(ctx, store, store); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("into itself: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := durable.Backup(ended, store, at("b")); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if left, _ := os.ReadDir(at("b")); len(left) > 0 {
		t.Errorf("a backup that ended early has left %v", left)
	}
	files, err := durable.Inspect(store)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(store, files.Segments[len(files.Segments)-1].Name)
	data, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(damaged, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := durable.Backup(ctx, store, at("c")); !errors.Is(err, weft.ErrCorrupt) {
		t.Errorf("of a damaged log: %v", err)
	}
}

// Read has the content and changes nothing. It works beside other readers, but not beside a writer.
func TestRead(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	empty := func() (*linear.Set[uint64], error) { return linear.NewSet[uint64](dev, nil) }
	added, stop := counted(t, dir, empty)
	for added.Load() < 100 {
	}
	if _, _, err := durable.Read(ctx, dir, empty, durable.Options{}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("of an open store: %v", err)
	}
	stop()
	before := contentOf(t, dir)
	s, found, err := durable.Read(ctx, dir, empty, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := int(added.Load()); s.Len() != n || found.Pairs+found.Changes < n {
		t.Errorf("%d numbers of %d; found %+v", s.Len(), n, found)
	}
	if _, err := s.Add(ctx, []uint64{1 << 50}, nil); err != nil { // not durable
		t.Error(err)
	}
	if err := durable.Checkpoint(ctx, s); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("Checkpoint of what is not durable: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if after := contentOf(t, dir); after != before {
		t.Error("Read has changed files")
	}
	if _, _, err := durable.Read(ctx, filepath.Join(dir, "none"), empty, durable.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
	maps := func() (*linear.Map[uint64, uint32], error) { return linear.New[uint64, uint32](dev, nil) }
	if _, _, err := durable.Read(ctx, dir, maps, durable.Options{}); !errors.Is(err, weft.ErrFormat) {
		t.Errorf("of another kind: %v", err)
	}
}

// contentOf returns the names and the content of the files in a folder.
func contentOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all += e.Name() + "\n" + string(data) + "\n"
	}
	return all
}

// Inspect tells what a store holds, also while it is open.
func TestInspect(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	m, err := durable.Open(ctx, dir, func() (*linear.Map[int32, float64], error) { return linear.New[int32, float64](dev, nil) }, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(ctx, []int32{1, -2}, []float64{.5, 2}); err != nil {
		t.Fatal(err)
	}
	if err := durable.Checkpoint(ctx, m); err != nil {
		t.Fatal(err)
	}
	f, err := durable.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.Holds != "a map of int32 and float64" || f.Kind != "map" || f.Key != "int32" || f.Value != "float64" || !f.Ordered || f.Rows != 2 || f.Checkpoint.Bytes == 0 || len(f.Segments) != 1 {
		t.Errorf("%+v", f)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := durable.Inspect(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, "MANIFEST"), 20); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Inspect(dir); !errors.Is(err, weft.ErrCorrupt) {
		t.Errorf("of a damaged manifest: %v", err)
	}
}
