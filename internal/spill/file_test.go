package spill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/internal/op"
)

// create makes a file with small blocks, and checks that it leaves nothing in its directory.
func create(t testing.TB, opts Options) *File {
	t.Helper()
	dir := t.TempDir()
	opts.AllowMemory = true
	f, err := Create(dir, &opts)
	check(t, err)
	t.Cleanup(func() {
		check(t, f.Close())
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("left %v, %v", files, err)
		}
	})
	return f
}

// pageOf returns a page of random length, sometimes longer than a block.
func pageOf(r *rand.Rand, maxLen int) []byte {
	n := r.IntN(1 + []int{0, 8, maxLen / 4, maxLen}[r.IntN(4)])
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// wantPages reads a chain and compares its pages with want. Pages must begin at multiples of 8.
func wantPages(c *Chain, want [][]byte) error {
	i := 0
	for page, err := range c.Pages() {
		switch {
		case err != nil:
			return err
		case i >= len(want) || !bytes.Equal(page, want[i]):
			return fmt.Errorf("page %d of %d is wrong: %d bytes", i, len(want), len(page))
		case uintptr(unsafe.Pointer(unsafe.SliceData(page)))%8 != 0:
			return fmt.Errorf("page %d begins at %p", i, page)
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("%d pages, want %d", i, len(want))
	}
	return nil
}

// noticed lists the errors of faults that were noticed. Any other error means wrong data.
var noticed = []error{
	op.ErrFormat, syscall.ENOSPC, syscall.EIO, io.ErrShortWrite, io.ErrUnexpectedEOF,
}

func wrong(err error) bool {
	is := func(e error) bool { return errors.Is(err, e) }
	return err != nil && !slices.ContainsFunc(noticed, is)
}

// wantError requires an error of a kind whose text contains all parts.
func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v, want %v", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: no %q", err, part)
		}
	}
}

// exercise runs random operations on chains of a file, and compares them with slices. It returns
// the errors of the file. If results are wrong without an error, the test fails.
func exercise(t testing.TB, f *File, r *rand.Rand, steps int) (errs []error) {
	t.Helper()
	type chain struct {
		*Chain
		pages [][]byte
		err   error
	}
	chains := make([]*chain, 1+r.IntN(4))
	for i := range chains {
		chains[i] = &chain{Chain: f.Chain()}
	}
	failed := func(c *chain, err error) {
		if wrong(err) {
			t.Fatal(err)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if c.err == nil {
			c.err = err
		}
	}
	for range steps {
		c := chains[r.IntN(len(chains))]
		switch r.IntN(12) {
		case 0:
			err := wantPages(c.Chain, c.pages)
			if err == nil && c.err != nil {
				t.Fatalf("read after %v", c.err)
			}
			if wrong(err) {
				t.Fatal(err)
			}
			if err != nil {
				errs = append(errs, err)
			}
		case 1:
			failed(c, c.Flush())
		case 2:
			err := c.Free()
			c.err, c.pages = nil, nil
			if wrong(err) {
				t.Fatal(err)
			}
			if err != nil {
				errs = append(errs, err)
			}
		default:
			page := pageOf(r, 3*f.Stats().BlockSize)
			before := c.err
			err := c.Append(page)
			if before != nil && err == nil {
				t.Fatalf("appended after %v", before)
			}
			failed(c, err)
			if err == nil {
				c.pages = append(c.pages, slices.Clone(page))
				clear(page) // it was copied
			}
		}
	}
	blocks := int64(0)
	for _, c := range chains {
		if c.err == nil {
			if int(c.Len()) != len(c.pages) {
				t.Fatalf("%d pages, want %d", c.Len(), len(c.pages))
			}
			failed(c, wantPages(c.Chain, c.pages))
		} else if err := wantPages(c.Chain, c.pages); err == nil {
			t.Fatalf("read after %v", c.err)
		}
		blocks += int64(len(c.blocks))
	}
	s := f.Stats()
	if s.Blocks != blocks || s.Peak < blocks || s.FileSize < blocks*int64(s.BlockSize) {
		t.Fatalf("%+v, %d blocks in chains", s, blocks)
	}
	for _, c := range chains {
		if err := c.Free(); err != nil {
			if errs = append(errs, err); wrong(err) {
				t.Fatal(err)
			}
		}
	}
	return errs
}

func TestFileProperty(t *testing.T) {
	for seed := range uint64(rounds(100)) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := NewBudget(0)
		f := create(t, Options{Memory: 1 << 20, BlockSize: 40 + 8*r.IntN(40), Budget: b})
		if errs := exercise(t, f, r, 100); errs != nil {
			t.Fatalf("seed %d: %v", seed, errs)
		}
		if s := f.Stats(); s.Blocks != 0 || s.FileSize != 0 {
			t.Fatalf("seed %d: %+v after Free", seed, s)
		}
		check(t, f.Close())
		check(t, f.Close())
		if b.Used() != 0 {
			t.Fatalf("seed %d: %d bytes in use", seed, b.Used())
		}
	}
}

// With each of thousands of faults the result is right or there is an error, and nothing leaks.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	var happened, found [Faults]int
	for seed := range uint64(rounds(10_000)) {
		r := rand.New(rand.NewPCG(seed, 4))
		fault := &Faulty{Fault: Fault(seed) % Faults, At: int64(r.IntN(20))}
		if fault.Fault >= TruncateError {
			fault.At %= 2
		}
		b := NewBudget(0)
		f, err := Create(dir, &Options{
			Memory: 1 << 20, BlockSize: 64 + 8*r.IntN(10), Budget: b, AllowMemory: true,
			Wrap: func(d Disk) Disk { fault.Disk = d; return fault },
		})
		check(t, err)
		errs := exercise(t, f, r, 40)
		if err := f.Close(); err != nil {
			errs = append(errs, err)
		}
		if b.Used() != 0 {
			t.Fatalf("seed %d: %d bytes in use", seed, b.Used())
		}
		if len(errs) > 0 && !fault.Done.Load() {
			t.Fatalf("seed %d: errors without a fault: %v", seed, errs)
		}
		if fault.Done.Load() {
			happened[fault.Fault]++
			if len(errs) > 0 {
				found[fault.Fault]++
			} else if f := fault.Fault; f <= WriteSilent || f >= ReadError {
				t.Fatalf("seed %d: fault %d is no error", seed, f)
			}
		}
	}
	for fault, n := range happened {
		if n == 0 || found[fault] == 0 {
			t.Errorf("fault %d happened %d times, noticed %d times", fault, n, found[fault])
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// openFiles returns the number of open files of the process, or 0 if the system does not list them.
// Files without a path do not count, because the runtime opens two with its first timer.
func openFiles(t *testing.T) (n int) {
	const dir = "/proc/self/fd"
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(dir, file.Name()))
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

// Errors of a full disk contain what a user needs.
func TestFullDisk(t *testing.T) {
	fault := &Faulty{Fault: WriteError, At: 2}
	f := create(t, Options{BlockSize: 64, Wrap: func(d Disk) Disk { fault.Disk = d; return fault }})
	c, other := f.Chain(), f.Chain()
	check(t, other.Append([]byte("another")))
	check(t, c.Append(make([]byte, 16))) // one block, with the 8 bytes of the next length
	check(t, c.Append(make([]byte, 16)))
	err := c.Append(make([]byte, 100))
	wantError(t, err, syscall.ENOSPC, f.Dir(), "after 128 bytes written", "set TempDir")
	if err2 := c.Append(nil); err2 != err {
		t.Errorf("Append: %v", err2)
	}
	if err2 := c.Flush(); err2 != err {
		t.Errorf("Flush: %v", err2)
	}
	if err := wantPages(c, make([][]byte, 2)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("pages of before: %v", err)
	}
	check(t, wantPages(other, [][]byte{[]byte("another")}))
	check(t, c.Free())
	check(t, c.Append([]byte("after")))
	check(t, wantPages(c, [][]byte{[]byte("after")}))
}

// A file does not grow while it has free blocks, and is empty when all are free.
func TestBlocksAreReused(t *testing.T) {
	f := create(t, Options{BlockSize: 64})
	var chains []*Chain
	for range 4 {
		c := f.Chain()
		for range 10 {
			check(t, c.Append(make([]byte, 24)))
		}
		chains = append(chains, c)
	}
	size := f.Stats().FileSize
	for range 5 {
		check(t, chains[1].Free())
		for range 10 {
			check(t, chains[1].Append(make([]byte, 24)))
		}
	}
	want := Stats{Written: 90 * 64, Blocks: 40, Peak: 40, BlockSize: 64, FileSize: 40 * 64}
	if s := f.Stats(); s != want || size != want.FileSize {
		t.Errorf("%+v, want %+v", s, want)
	}
	for _, c := range chains {
		check(t, c.Free())
		if c.Size() != 0 || c.Len() != 0 {
			t.Errorf("%d pages of %d bytes", c.Len(), c.Size())
		}
	}
	if s := f.Stats(); s.FileSize != 0 || s.Blocks != 0 || s.Peak != 40 {
		t.Errorf("%+v", s)
	}
}

// The number of buffers of chains and readers is bounded.
func TestBuffersAreBounded(t *testing.T) {
	b := NewBudget(0)
	f := create(t, Options{Memory: 1 << 20, Chains: 16, Budget: b})
	if s := f.Stats(); s.BlockSize != 64<<10 {
		t.Errorf("%+v", s)
	}
	var chains []*Chain
	for range 16 {
		c := f.Chain()
		check(t, c.Append(make([]byte, 100_000)))
		chains = append(chains, c)
	}
	extra := f.Chain()
	wantError(t, extra.Append([]byte("x")), op.ErrFull, "set Memory higher")
	if _, err := chains[0].Reader(); !errors.Is(err, op.ErrFull) {
		t.Errorf("a reader: %v", err)
	}
	if b.Used() != 1<<20 || b.Peak() != 1<<20 {
		t.Errorf("%d bytes in use, peak %d", b.Used(), b.Peak())
	}
	check(t, chains[0].Flush())
	check(t, extra.Append([]byte("x")))
	for _, c := range chains {
		check(t, c.Flush())
	}
	for _, c := range chains {
		check(t, wantPages(c, [][]byte{make([]byte, 100_000)}))
	}
	f.Trim()
	if b.Used() != 64<<10 {
		t.Errorf("%d bytes in use", b.Used())
	}
	b.Hook = func(int64) error { return io.ErrNoProgress }
	if err := chains[0].Append(nil); err != io.ErrNoProgress {
		t.Error(err)
	}
	if _, err := chains[0].Reader(); err != io.ErrNoProgress {
		t.Error(err)
	}
	b.Hook = nil
	check(t, wantPages(chains[0], [][]byte{make([]byte, 100_000)}))
}

// A chain that is being read cannot change. Two readers are independent.
func TestReaders(t *testing.T) {
	f := create(t, Options{BlockSize: 64})
	c := f.Chain()
	check(t, wantPages(c, nil))
	check(t, c.Free())
	var pages [][]byte
	for i := range 9 {
		pages = append(pages, bytes.Repeat([]byte{byte(i)}, 5*i))
		check(t, c.Append(pages[i]))
	}
	a, err := c.Reader()
	check(t, err)
	b, err := c.Reader()
	check(t, err)
	for i := range pages {
		for _, r := range []*Reader{a, b} {
			if page, err := r.Next(); err != nil || !bytes.Equal(page, pages[i]) {
				t.Fatalf("page %d: %x, %v", i, page, err)
			}
		}
	}
	for _, change := range []func() error{c.Flush, c.Free, func() error { return c.Append(nil) }} {
		if err := change(); err != errReading {
			t.Error(err)
		}
	}
	for _, r := range []*Reader{a, b} {
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
		check(t, r.Close())
		check(t, r.Close())
		if _, err := r.Next(); !errors.Is(err, op.ErrClosed) {
			t.Error(err)
		}
	}
	for range c.Pages() { // a loop that ends early closes its reader
		break
	}
	check(t, c.Append(nil))
	check(t, wantPages(c, append(pages, nil)))
}

// Goroutines append to their own chains and read others, until the file is closed.
func TestFileConcurrently(t *testing.T) {
	f := create(t, Options{BlockSize: 256, Memory: 1 << 20})
	full := f.Chain()
	var pages [][]byte
	for i := range 50 {
		pages = append(pages, bytes.Repeat([]byte{byte(i)}, 10*i))
		check(t, full.Append(pages[i]))
	}
	var wg sync.WaitGroup
	started := make(chan bool, 6)
	for g := range uint64(6) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 5))
			for round := 0; ; round++ {
				c, appended := f.Chain(), [][]byte(nil)
				for range 20 {
					page := pageOf(r, 600)
					err := c.Append(page)
					if errors.Is(err, op.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					appended = append(appended, page)
				}
				for c, want := range map[*Chain][][]byte{c: appended, full: pages} {
					i := 0
					reader, err := c.Reader()
					for err == nil {
						var page []byte
						if page, err = reader.Next(); err == nil {
							i++
							_ = page // Close may unmap it at any time
						}
					}
					if errors.Is(err, op.ErrClosed) {
						return
					}
					if err != io.EOF || i != len(want) || reader.Close() != nil {
						t.Errorf("%d of %d pages: %v", i, len(want), err)
						return
					}
				}
				if err := c.Free(); err != nil && !errors.Is(err, op.ErrClosed) {
					t.Error(err)
					return
				}
				if round == 10 {
					started <- true
				}
			}
		})
	}
	for range 6 {
		<-started
	}
	check(t, wantPages(full, pages))
	check(t, f.Close())
	wg.Wait()
	if _, err := full.Reader(); !errors.Is(err, op.ErrClosed) {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, opts := range map[string]Options{
		"memory": {Memory: 100}, "chains": {Chains: -1},
		"too many": {Memory: 1 << 20, Chains: 65}, "header only": {BlockSize: 32},
		"odd": {BlockSize: 100}, "large": {BlockSize: 32 << 20},
	} {
		if f, err := Create(dir, &opts); !errors.Is(err, op.ErrOptions) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	missing := filepath.Join(dir, "missing")
	_, err := Create(missing, &Options{AllowMemory: true})
	wantError(t, err, fs.ErrNotExist, missing, "TempDir")
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	f, err := Create("", &Options{AllowMemory: true})
	check(t, err)
	if f.Dir() != dir || f.Stats().BlockSize != 256<<10 {
		t.Errorf("%s, %+v", f.Dir(), f.Stats())
	}
	check(t, f.Close())
}

// Speed through the page cache, of bytes written to 64 chains and read again.
func BenchmarkFile(b *testing.B) {
	for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			f := create(b, Options{BlockSize: size, Memory: 128 << 20})
			page := make([]byte, 60_000)
			const total = 256 << 20
			b.SetBytes(total)
			for b.Loop() {
				var chains [64]*Chain
				for i := range chains {
					chains[i] = f.Chain()
				}
				for i := range total / len(page) {
					check(b, chains[i%64].Append(page))
				}
				for _, c := range chains {
					check(b, c.Flush())
					for _, err := range c.Pages() {
						check(b, err)
					}
					check(b, c.Free())
				}
			}
		})
	}
}
