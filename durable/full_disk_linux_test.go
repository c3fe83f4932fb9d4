package durable_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/durable"
)

// On a full file system a store refuses changes as a whole and keeps all earlier ones. It goes on
// when there is space again. Opened while the file system is full, it has its content, or says so.
func TestRealFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	ballast := filepath.Join(root, "ballast")
	dir, opts := filepath.Join(root, "store"), durable.Options{LogLimit: 4 << 20}
	m, model, rng := openMap(t, dir, opts), map[uint64]uint64{}, rand.New(rand.NewPCG(1, 1))
	put := func() error {
		keys, vals := make([]uint64, 4096), make([]uint64, 4096)
		for i := range keys {
			keys[i], vals[i] = rng.Uint64N(1<<18), rng.Uint64()
		}
		_, err := m.Put(ctx, keys, vals)
		for i := range keys {
			if err == nil {
				model[keys[i]] = vals[i]
			}
		}
		return err
	}
	check := func(when string) {
		t.Helper()
		if !maps.Equal(maps.Collect(m.All()), model) {
			t.Fatalf("%s: %d pairs, want %d, or others", when, m.Len(), len(model))
		}
	}
	refused := 0
	for round := range 4 {
		for range 10 {
			if err := put(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		fillDisk(t, ballast)
		for range 3000 { // the log has reserved space for some of them
			if err := put(); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("round %d: %v", round, err)
				}
				refused++
				break
			}
		}
		check("full")
		if round%2 == 1 { // a restart on a full disk
			_ = m.Close() // may fail to truncate the log
			again, err := durable.Open(ctx, dir, makeMap(t), opts)
			if err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("round %d: open: %v", round, err)
			}
			if err == nil {
				m = again
				check("opened on a full disk")
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			if err != nil {
				m = openMap(t, dir, opts)
			}
		} else if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		check("with space again")
	}
	if refused == 0 {
		t.Error("no change was refused")
	}
	if err := errors.Join(put(), m.Close()); err != nil {
		t.Fatal(err)
	}
	m = openMap(t, dir, opts)
	check("reopened")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// fillDisk makes a file that takes all space of its file system.
func fillDisk(t *testing.T, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for len(block) > 0 {
		if _, err = f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
