package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
)

// file creates a file of n bytes in dir and maps it shared.
func file(t *testing.T, dir string, n int) (path string, mem []byte) {
	t.Helper()
	f, err := os.CreateTemp(dir, "weft-*")
	if err != nil {
		t.Skipf("no file in %s: %v", dir, err)
	}
	defer f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	if err := f.Truncate(int64(n)); err != nil {
		t.Fatal(err)
	}
	mem, err = syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return f.Name(), mem
}

// fileSystem returns the type of the file system that holds path, from statfs.
func fileSystem(t *testing.T, path string) int64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Type)
}

// tmpfs is the type of a file system with files that can be mapped. The kernel refuses files of
// other types.
const tmpfs = 0x01021994

var refused = map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x794c7630: "an overlay"}

// What a kernel writes to a mapped file of tmpfs is in the file, for other readers and after the
// device is closed. A kernel reads what the host writes.
func TestGPUMapFile(t *testing.T) {
	d, s := gpu(t)
	const n = 1 << 20
	path, mem := file(t, "/dev/shm", 4*n)
	if fileSystem(t, path) != tmpfs {
		t.Skipf("%s is no tmpfs", filepath.Dir(path))
	}
	b, unmap, err := d.Map(mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes at %#x are mapped at %#x", len(mem), address(mem), uint64(b.Ptr))
	ones, err := device.Upload(s, bytes.Repeat([]byte{1, 0, 0, 0}, n))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		binary.LittleEndian.PutUint32(mem[4*i:], uint32(i))
	}
	add(t, d, s, b.Ptr, ones.Ptr(), b.Ptr, n)
	add(t, d, s, b.Ptr, ones.Ptr(), b.Ptr, n)
	if err := errors.Join(s.Sync(t.Context()), ones.Free(), unmap()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := binary.LittleEndian.Uint32(data[4*i:]); got != uint32(i)+2 {
			t.Fatalf("element %d of the file is %d, want %d", i, got, i+2)
		}
	}
}

// Map refuses files of other file systems with a reason, and the device stays usable.
func TestGPUMapRefusesFiles(t *testing.T) {
	d, _ := gpu(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, dir := range []string{dir, os.TempDir(), "/var/tmp"} {
		name, ok := refused[fileSystem(t, dir)]
		if !ok {
			continue
		}
		seen = true
		_, mem := file(t, dir, 1<<20)
		_, unmap, err := d.Map(mem)
		t.Logf("a file in %s, on %s: %v", dir, name, err)
		if err == nil {
			t.Errorf("Map took it; undone: %v", unmap())
			continue
		}
		if !errors.Is(err, device.ErrUnsupported) || !strings.Contains(err.Error(), "tmpfs") {
			t.Errorf("the error does not tell what would do: %v", err)
		}
		if _, err := d.Register(mem); !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("Register: %v", err)
		}
	}
	if !seen {
		t.Skip("no directory is on a file system that is known to be refused")
	}
	gpuKernel(t, d, "add") // the device stays usable
}

// Map refuses read-only memory.
func TestGPUMapRefusesReadOnly(t *testing.T) {
	d, _ := gpu(t)
	mem, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	_, unmap, err := d.Map(mem)
	if err == nil {
		t.Fatalf("Map took it; undone: %v", unmap())
	}
	t.Log(err)
	if !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("error is %v", err)
	}
}

// The driver may or may not allow two mappings to share a page; the test logs which. Mapping takes
// as long as page-locking.
func TestGPUMapPages(t *testing.T) {
	d, _ := gpu(t)
	page := os.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 1<<30, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	_, unmap, err := d.Map(mem[:page/2])
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := d.Map(mem[page/2 : page])
	t.Logf("the second half of a page whose first half is mapped: %v", err)
	if err == nil {
		err = second()
	} else if errors.Is(err, device.ErrInvalid) {
		err = nil
	}
	if err := errors.Join(err, unmap()); err != nil {
		t.Error(err)
	}
	for _, what := range []string{"never touched", "touched"} {
		start := time.Now()
		b, unmap, err := d.Map(mem)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		start = time.Now()
		if err := unmap(); err != nil {
			t.Fatal(err)
		}
		t.Logf("1 GiB of memory %s: mapped in %v, unmapped in %v; host %#x, device %#x", what, took, time.Since(start), address(mem), uint64(b.Ptr))
		for i := 0; i < len(mem); i += page {
			mem[i] = 1
		}
	}
}

// Memory mapped in pieces is one block for kernels, fills and copies that cross the ends of pieces.
func TestGPUMapInPieces(t *testing.T) {
	d, s := gpu(t)
	d.pieceBytes = 1 << 21
	defer func() { d.pieceBytes = mapPiece }()
	const n = 2 << 20 // words
	_, mem := file(t, "/dev/shm", 4*n)
	b, unmap, err := d.Map(mem)
	if err != nil {
		t.Fatal(err)
	}
	if !d.pieces.covers(uintptr(b.Ptr)) {
		t.Logf("mapped as a whole: %#x is at %#x", address(mem), uint64(b.Ptr))
	}
	ones, err := device.Upload(s, bytes.Repeat([]byte{1, 0, 0, 0}, n))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(b.Ptr, 7, n); err != nil {
		t.Fatal(err)
	}
	add(t, d, s, b.Ptr, ones.Ptr(), b.Ptr, n)
	err = errors.Join(s.Copy(ones.Ptr(), b.Ptr, 4*n), s.Fill(b.Ptr, 0, n), s.CopyOut(t.Context(), mem, ones.Ptr()), s.Sync(t.Context()))
	if err := errors.Join(err, ones.Free(), unmap()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := binary.LittleEndian.Uint32(mem[4*i:]); got != 8 {
			t.Fatalf("element %d is %d, want 8", i, got)
		}
	}
}
