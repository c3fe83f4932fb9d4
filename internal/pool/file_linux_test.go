package pool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// newPool returns a pool in a new file, and the file's name.
func newPool(t *testing.T) (*Pool, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pool")
	p, err := Create(path, sample(), testSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Abandon() })
	return p, path
}

// newClosedPool returns the name of a file with a closed pool.
func newClosedPool(t *testing.T) string {
	t.Helper()
	p, path := newPool(t)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t *testing.T, path string, readOnly bool) *Pool {
	t.Helper()
	p, err := Open(path, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Abandon() })
	return p
}

// checkDirectory fails unless the directory of path holds exactly these names.
func checkDirectory(t *testing.T, path string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var is []string
	for _, e := range entries {
		is = append(is, e.Name())
	}
	if fmt.Sprint(is) != fmt.Sprint(names) {
		t.Errorf("the directory has %q, want %q", is, names)
	}
}

func TestCreateOpenClose(t *testing.T) {
	p, path := newPool(t)
	checkDirectory(t, path, "pool")
	stat, err := os.Stat(path)
	if err != nil || stat.Mode() != 0o600 || stat.Size() != testSize {
		t.Fatalf("%v, mode %v, %d bytes", err, stat.Mode(), stat.Size())
	}
	if allocated := stat.Sys().(*syscall.Stat_t).Blocks * 512; allocated < testSize {
		t.Errorf("%d bytes of %d are allocated", allocated, testSize)
	}
	if p.Durability() != Process || p.ReadOnly() || len(p.Bytes()) != testSize || p.Memory().Words() != testSize/8 {
		t.Errorf("%v, read-only %v, %d bytes, %d words", p.Durability(), p.ReadOnly(), len(p.Bytes()), p.Memory().Words())
	}
	p.Memory().Store(DataStart/8, 0x1122334455667788)
	if err := p.Commit(func(s *Superblock) { s.Epoch = 50 }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil || p.Bytes() != nil {
		t.Fatal(err)
	}
	p = mustOpen(t, path, false)
	s := p.Superblock()
	if !p.WasClean() || s.Clean || s.UncleanOpens != 0 || s.Epoch != 50 || s.Generation != 5 || p.Memory().Load(DataStart/8) != 0x1122334455667788 {
		t.Fatalf("found %+v, clean %v", s, p.WasClean())
	}
	if err := p.Abandon(); err != nil {
		t.Fatal(err)
	}
	for opens := range uint64(2) {
		p = mustOpen(t, path, false)
		if p.WasClean() || p.Superblock().UncleanOpens != opens+1 {
			t.Fatalf("abandoned %d times: clean %v, %d unclean openings", opens+1, p.WasClean(), p.Superblock().UncleanOpens)
		}
		if err := p.Abandon(); err != nil {
			t.Fatal(err)
		}
	}
}

// Create sets fields that the caller leaves zero.
func TestCreateFills(t *testing.T) {
	var last Superblock
	for i := range 2 {
		s := sample()
		s.UUID, s.Geometry.Seed, s.Created, s.Tool = [16]byte{}, [2]uint64{}, last.Created, ""
		p, err := Create(filepath.Join(t.TempDir(), "pool"), s, testSize)
		if err != nil {
			t.Fatal(err)
		}
		is := p.Superblock()
		if is.UUID == last.UUID || is.Geometry.Seed == last.Geometry.Seed || is.UUID[6]>>4 != 4 || is.UUID[8]>>6 != 2 || is.Created.IsZero() || !strings.HasPrefix(is.Tool, "weft ") {
			t.Errorf("pool %d: %+v", i, is)
		}
		last = is
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Create does not replace an existing file or link.
func TestCreateOverSomething(t *testing.T) {
	path := newClosedPool(t)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, sample(), testSize); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a pool: %v", err)
	}
	for name, create := range map[string]func(string, *Superblock, Requirements) (*Pool, error){"without a name": createUnnamed, "named": createNamed} {
		if _, err := create(path, sample(), Requirements{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a pool that has come in the meantime, %s: %v", name, err)
		}
	}
	is, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(is, was) {
		t.Errorf("the pool that was there has changed: %v", err)
	}
	link := filepath.Join(filepath.Dir(path), "symlink")
	if err := os.Symlink("nothing", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(link, sample(), testSize); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link to nothing: %v", err)
	}
	checkDirectory(t, path, "pool", "symlink")
	for size, want := range map[int64]error{-1: op.ErrOptions, 0: op.ErrOptions, testSize + 1: op.ErrOptions, DataStart: op.ErrOptions, testSize - Page: op.ErrOptions} {
		if _, err := Create(path+"2", sample(), size); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "pool"), sample(), testSize); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func writeFile(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Open opens only regular files, and only under their own names.
func TestOpenSomethingElse(t *testing.T) {
	path := newClosedPool(t)
	dir := filepath.Dir(path)
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("pool", link), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		for path, want := range map[string]error{
			link: unix.ELOOP, path + "3": fs.ErrNotExist, pipe: op.ErrFormat, "/dev/null": op.ErrFormat,
			writeFile(t, filepath.Join(dir, "empty"), nil):                                op.ErrFormat,
			writeFile(t, filepath.Join(dir, "text"), bytes.Repeat([]byte("text"), 2<<20)): op.ErrFormat,
		} {
			if _, err := Open(path, readOnly); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", filepath.Base(path), err, want)
			}
			if _, err := Inspect(path); (err != nil) == (strings.HasSuffix(path, "empty") || strings.HasSuffix(path, "text")) {
				t.Errorf("Inspect %s: %v", filepath.Base(path), err)
			}
		}
	}
	if _, err := Open(dir, true); !errors.Is(err, op.ErrFormat) {
		t.Errorf("a directory: %v", err)
	}
}

// A file has one writer or several readers, under all of its names.
func TestDoubleOpen(t *testing.T) {
	p, path := newPool(t)
	other := filepath.Join(filepath.Dir(path), "other")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		for _, path := range []string{path, other} {
			if _, err := Open(path, readOnly); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "this process") {
				t.Errorf("open, read-only %v: %v", readOnly, err)
			}
		}
		if child, output := start(t, "read", path, nil); !strings.Contains(output, "locked: open in another process") {
			t.Errorf("another process: %s", output)
			child.Process.Kill()
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	first, second := mustOpen(t, path, true), mustOpen(t, other, true)
	if _, err := Open(path, false); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "this process") {
		t.Errorf("beside readers: %v", err)
	}
	first.Close()
	if _, err := Open(path, false); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "this process") {
		t.Errorf("beside a reader: %v", err)
	}
	second.Close()
	mustOpen(t, path, false)
}

// Two processes may read, but none may write while another one reads.
func TestReadersAcrossProcesses(t *testing.T) {
	path := newClosedPool(t)
	child, output := start(t, "read", path, nil)
	if output != "opened: <nil>" {
		t.Fatal(output)
	}
	mustOpen(t, path, true).Close()
	if _, err := Open(path, false); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("beside a reader: %v", err)
	}
	child.Process.Kill()
	child.Wait()
	mustOpen(t, path, false)
}

// After a process is killed, all that it has stored and committed remains, and the pool is unclean.
func TestKill(t *testing.T) {
	path := newClosedPool(t)
	for round := range uint64(5) {
		child, output := start(t, "hold", path, nil)
		if output != "opened: <nil>" {
			t.Fatal(output)
		}
		if _, err := Open(path, false); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another process") {
			t.Errorf("while the other process lives: %v", err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		child.Wait()
		p := mustOpen(t, path, false)
		s := p.Superblock()
		if p.WasClean() || s.UncleanOpens != round+1 || s.Epoch != 99 || string(p.Bytes()[DataStart:DataStart+6]) != "stored" {
			t.Fatalf("after the kill: clean %v, %+v, %q", p.WasClean(), s, p.Bytes()[DataStart:DataStart+6])
		}
		copy(p.Bytes()[DataStart:], "closed")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A file opened for reading does not change and cannot be changed.
func TestReadOnly(t *testing.T) {
	path := newClosedPool(t)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	p := mustOpen(t, path, true)
	if err := p.Commit(func(*Superblock) {}); !errors.Is(err, ErrReadOnly) || !p.ReadOnly() || !p.WasClean() {
		t.Errorf("Commit: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the file has changed: %v", err)
	}
}

// A pool with an unknown feature in Features.ReadOnly can be opened for reading.
func TestUnknownForReading(t *testing.T) {
	path := newClosedPool(t)
	patch(t, path, func(mapped []byte) {
		clear(mapped[:blockSize])
		rewrite(mapped, func(w *wire) { w.Features.ReadOnly = 8 }, func(b *block) { b[1192] = 17 })
	})
	if _, err := Open(path, false); !errors.Is(err, ErrVersion) || !errors.Is(err, ErrReadOnly) {
		t.Errorf("for changing: %v", err)
	}
	mustOpen(t, path, true)
}

func patch(t *testing.T, path string, change func(mapped []byte)) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change(content)
	writeFile(t, path, content)
}

// A file of a wrong length, near any boundary, is refused before it is mapped. A missing page would
// kill the process.
func TestTruncated(t *testing.T) {
	path := newClosedPool(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, end := range []int64{0, Page, copyB, DataStart, testSize} {
		for d := int64(-3); d <= 3; d++ {
			sizes = append(sizes, end+d*Page, end+d*Page-1, end+d*Page+1)
		}
	}
	for _, size := range sizes {
		if size <= 0 || size == testSize { // an empty file is not a pool
			continue
		}
		writeFile(t, path, append(whole, make([]byte, 4*Page)...)[:size])
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(path, readOnly); !errors.Is(err, op.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", size, testSize, err)
			}
		}
		info, err := Inspect(path)
		if err != nil || info.Size != size || !errors.Is(info.Err, op.ErrCorrupt) || (info.Current < 0) != (size < blockSize) {
			t.Errorf("Inspect %d of %d bytes: %v, %+v", size, testSize, err, info)
		}
	}
	writeFile(t, path, whole)
	mustOpen(t, path, false)
}

// If one copy of the superblock is damaged, the other copy is used, and opening the pool repairs
// both.
func TestDamagedFile(t *testing.T) {
	path := newClosedPool(t) // generation 3, in copy A, is marked as clean
	patch(t, path, func(mapped []byte) { mapped[100] ^= 1 })
	info, err := Inspect(path)
	if err != nil || info.Err != nil || info.Current != 1 || !errors.Is(info.Copies[0].Err, op.ErrCorrupt) || info.Copies[1].Err != nil || info.Copies[1].Superblock.Generation != 2 {
		t.Fatalf("Inspect: %v, %+v", err, info)
	}
	p := mustOpen(t, path, false)
	if p.WasClean() || p.Superblock().UncleanOpens != 1 || p.StaleCopyErr() != nil {
		t.Errorf("clean %v, %+v, %v", p.WasClean(), p.Superblock(), p.StaleCopyErr())
	}
	info, err = Inspect(path) // while the writer has it open
	if err != nil || info.Err != nil || info.Copies[0].Err != nil || info.Copies[1].Err != nil || info.Allocated < info.Size {
		t.Errorf("Inspect after opening: %v, %+v", err, info)
	}
	p.Abandon()
	patch(t, path, func(mapped []byte) { mapped[100] ^= 1; mapped[copyB+100] ^= 1 })
	if _, err := Open(path, false); !errors.Is(err, op.ErrCorrupt) {
		t.Errorf("both damaged: %v", err)
	}
}
