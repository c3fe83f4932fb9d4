package durable_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

// numberSet opens a store of numbers and adds 0 to n-1, each in a call of its own.
func numberSet(t *testing.T, dev device.Device, dir string, n int) *linear.Set[uint64] {
	t.Helper()
	s, err := durable.Open(ctx, dir, emptySet(dev), durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		if _, err := s.Add(ctx, []uint64{i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func emptySet(dev device.Device) func() (*linear.Set[uint64], error) {
	return func() (*linear.Set[uint64], error) { return linear.NewSet[uint64](dev, nil) }
}

// lengthOf returns the length of the set that a store holds.
func lengthOf(t *testing.T, dev device.Device, dir string) int {
	t.Helper()
	s, _, err := durable.Read(ctx, dir, emptySet(dev), durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Len()
}

// A backup does not change with the store, even if a checkpoint has failed before: then the store
// has a newer segment that it does not use.
func TestBackupIsFinal(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	store, backup := filepath.Join(dir, "store"), filepath.Join(dir, "backup")
	s := numberSet(t, dev, store, 100)
	defer s.Close()
	for i := 0; ; i++ {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := durable.Checkpoint(ended, s); err == nil {
			t.Fatal("a checkpoint without time")
		}
		files, err := durable.Inspect(store)
		if err != nil {
			t.Fatal(err)
		}
		if len(files.Segments) > 1 {
			break
		}
		if i == 1000 {
			t.Fatal("no checkpoint has ended after it began a segment")
		}
	}
	if err := durable.Backup(ctx, store, backup); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if n := lengthOf(t, dev, backup); n != 100 {
		t.Errorf("after Clear of the store, the backup has %d numbers", n)
	}
}

// Damage that Open would refuse is an error of Backup and Restore, too.
func TestBackupOfDamage(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	s := numberSet(t, dev, at("store"), 100)
	defer s.Close()
	if err := durable.Backup(ctx, at("store"), at("backup")); err != nil {
		t.Fatal(err)
	}
	damage := func(dir string) {
		name := filepath.Join(dir, "log-0000000000000001")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[64+50*48+44] ^= 1 // in one of 100 frames of 48 bytes
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	damage(at("backup"))
	if err := durable.Restore(ctx, at("backup"), at("a")); !errors.Is(err, weft.ErrCorrupt) {
		t.Errorf("Restore: %v", err)
	}
	damage(at("store"))
	if err := durable.Backup(ctx, at("store"), at("b")); !errors.Is(err, weft.ErrCorrupt) {
		t.Errorf("Backup: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(at(name)); err == nil {
			t.Errorf("folder %s is left", name)
		}
	}
}

// Of several backups to one folder, one succeeds and stays whole.
func TestBackupsToOneFolder(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	store, backup := filepath.Join(dir, "store"), filepath.Join(dir, "backup")
	s := numberSet(t, dev, store, 10)
	defer s.Close()
	if err := durable.Checkpoint(ctx, s); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		var wait sync.WaitGroup
		results := make([]error, 3)
		for i := range results {
			wait.Go(func() { results[i] = durable.Backup(ctx, store, backup) })
		}
		wait.Wait()
		done := 0
		for _, err := range results {
			if err == nil {
				done++
			}
		}
		if done > 1 {
			t.Errorf("%d backups to one folder", done)
		}
		if done == 1 && lengthOf(t, dev, backup) != 10 {
			t.Error("the backup is not whole")
		}
		if err := os.RemoveAll(backup); err != nil {
			t.Fatal(err)
		}
	}
}

// Files of another store, folders, and names that only look like files of a store.
func TestForeignFiles(t *testing.T) {
	dev, dir := devicetest.OpenCPU(t, 1), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "b"} {
		if err := numberSet(t, dev, at(name), 10).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := numberSet(t, dev, at("b"), 20).Close(); err != nil { // with a second segment
		t.Fatal(err)
	}
	for _, name := range []string{"log-0000000000000009", "checkpoint-00000000000000ff"} {
		if err := os.Mkdir(filepath.Join(at("a"), name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at("a"), "log-000000000000000A"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if n := lengthOf(t, dev, at("a")); n != 10 {
		t.Errorf("%d numbers beside other files", n)
	}
	if err := durable.Backup(ctx, at("a"), filepath.Join(at("a"), "backup")); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a backup inside the store: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(at("b"), "log-0000000000000002"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at("a"), "log-0000000000000002"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		_, err := durable.Open(ctx, at("a"), emptySet(dev), durable.Options{Repair: repair})
		if !errors.Is(err, weft.ErrFormat) {
			t.Errorf("with a segment of another store, repair %v: %v", repair, err)
		}
	}
}
