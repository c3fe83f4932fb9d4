package distinct

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/arena"
)

type result struct {
	item  string
	count uint64
}

func (r result) String() string { return fmt.Sprintf("%d %q", r.count, r.item) }

// naive returns the expected result of a count: the items of a Go map, sorted.
func naive(by Splitter, streams ...string) []result {
	m := make(map[string]uint64)
	for _, s := range streams {
		for _, item := range naiveSplit(by, s) {
			m[item]++
		}
	}
	rs := make([]result, 0, len(m))
	for item, n := range m {
		rs = append(rs, result{item, n})
	}
	slices.SortFunc(rs, func(a, b result) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.item, b.item))
	})
	return rs
}

func naiveSplit(by Splitter, s string) []string {
	switch by := by.(type) {
	case lines:
		items := strings.Split(s, "\n")
		if items[len(items)-1] == "" {
			items = items[:len(items)-1]
		}
		return items
	case words:
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) })
	case records:
		var items []string
		for len(s) > int(by) {
			items, s = append(items, s[:by]), s[by:]
		}
		if s != "" {
			items = append(items, s)
		}
		return items
	}
	panic(fmt.Sprintf("no naive form of %v", by))
}

func collect(t fataler, c *Counter, n int) []result {
	rs := []result{}
	for _, x := range top(t, c, n) {
		rs = append(rs, result{string(x.Bytes), x.Count})
	}
	return rs
}

type fataler interface {
	Helper()
	Fatal(...any)
}

// top returns the first n items, or all if n is 0.
func top(t fataler, c *Counter, n int) (items []Item) {
	t.Helper()
	r, err := c.Top(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Each(context.Background(), func(item []byte, count uint64) error {
		items = append(items, Item{bytes.Clone(item), count})
		return nil
	})
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if n == 0 && len(items) != r.Distinct {
		t.Fatal(len(items), "items; the ranking counts", r.Distinct)
	}
	return items
}

// open returns a counter on a new device.
func open(t testing.TB, by Splitter, opts *Options, h arena.Hasher) *Counter {
	t.Helper()
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCounter(dev, by, opts, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func ofLines(t testing.TB) *Counter { return open(t, Lines, nil, arena.NewHasher()) }

func mustRecords(t testing.TB, n int) Splitter {
	by, err := Records(n)
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// weak returns a hasher that gives all long items one of four keys.
func weak() arena.Hasher {
	h := arena.NewHasher()
	good := h.Hash
	h.Hash = func(item []byte) uint64 { return good(item) % 4 }
	return h
}

func TestScenarios(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tt := range []struct {
		name    string
		by      Splitter
		streams []string
		want    []result
	}{
		{"nothing", Lines, nil, []result{}},
		{"empty stream", Lines, []string{""}, []result{}},
		{"one empty line", Lines, []string{"\n"}, []result{{"", 1}}},
		{"empty lines are items", Lines, []string{"a\n\n\nb\n"}, []result{{"", 2}, {"a", 1}, {"b", 1}}},
		{"last line without end", Lines, []string{"a\nb\na"}, []result{{"a", 2}, {"b", 1}}},
		{"carriage return stays", Lines, []string{"a\r\na\n"}, []result{{"a", 1}, {"a\r", 1}}},
		{"streams end lines", Lines, []string{"a", "b\n"}, []result{{"a", 1}, {"b", 1}}},
		{"zero bytes count", Lines, []string{"\x00\n\x00\x00\n\n\x00\n"}, []result{{"\x00", 2}, {"", 1}, {"\x00\x00", 1}}},
		{"around eight bytes", Lines, []string{"1234567\n12345678\n123456789\n12345678\n1234567\n1234567\x00\n"},
			[]result{{"1234567", 2}, {"12345678", 2}, {"1234567\x00", 1}, {"123456789", 1}}},
		{"bytes order ties", Lines, []string{"\xff\nb\nB\n\xc3\xa4\na\n"}, []result{{"B", 1}, {"a", 1}, {"b", 1}, {"\xc3\xa4", 1}, {"\xff", 1}}},
		{"long ties", Lines, []string{long + "b\n" + long + "\n" + long + "a\n"}, []result{{long, 1}, {long + "a", 1}, {long + "b", 1}}},
		{"words", Words, []string{" the cat\tthe\vdog\fthe\r\ncat "}, []result{{"the", 3}, {"cat", 2}, {"dog", 1}}},
		{"no words", Words, []string{" \n\t "}, []result{}},
		{"other spaces are not white", Words, []string{"a\u00a0b a\x85 a\x00b \x08 \x0e \x1f \x21"},
			[]result{{"\x08", 1}, {"\x0e", 1}, {"\x1f", 1}, {"!", 1}, {"a\x00b", 1}, {"a\x85", 1}, {"a\u00a0b", 1}}},
		{"streams end words", Words, []string{"ab", "ab"}, []result{{"ab", 2}}},
		{"records", mustRecords(t, 2), []string{"ababcab"}, []result{{"ab", 2}, {"b", 1}, {"ca", 1}}},
		{"streams end records", mustRecords(t, 4), []string{"abcdab", "abcd"}, []result{{"abcd", 2}, {"ab", 1}}},
		{"record larger than stream", mustRecords(t, 1000), []string{"abc"}, []result{{"abc", 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, tt.by, nil, arena.NewHasher())
			total := 0
			for _, s := range tt.streams {
				if err := c.Read(t.Context(), strings.NewReader(s)); err != nil {
					t.Fatal(err)
				}
				total += len(s)
			}
			if got := collect(t, c, 0); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := naive(tt.by, tt.streams...); !slices.Equal(got, tt.want) {
				t.Errorf("the naive count says %v, want %v", got, tt.want)
			}
			checkTotals(t, c, tt.want, total)
		})
	}
}

func checkTotals(t testing.TB, c *Counter, want []result, size int) {
	t.Helper()
	items := 0
	for _, r := range want {
		items += int(r.count)
	}
	if got := (Totals{items, size}); c.Totals() != got {
		t.Errorf("totals %+v, want %+v", c.Totals(), got)
	}
}

// text draws items with Zipf-like frequencies and lengths around 8.
func text(rng *rand.Rand, distinct, size int) []byte {
	var b []byte
	for len(b) < size {
		i := int(float64(distinct) * rng.Float64() * rng.Float64() * rng.Float64())
		b = fmt.Appendf(b, "%.*s%d", i%20, "item-of-some-more-length", i)
		b = append(b, " \n\n\t"[rng.IntN(4)])
	}
	return b
}

// TestAgainstNaive reproduces the effects of large inputs with small ones: items that span pieces,
// evictions, colliding keys, several rounds.
func TestAgainstNaive(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, h := range []struct {
		name string
		make func() arena.Hasher
	}{{"seeded", arena.NewHasher}, {"four keys", weak}} {
		t.Run(h.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				by := rapid.SampledFrom([]Splitter{Lines, Words, records(1), records(3), records(8), records(13)}).Draw(t, "by")
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				opts := &Options{Workers: rapid.IntRange(1, 5).Draw(t, "workers")}
				c, err := newCounter(dev, by, opts, h.make())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.pieceSize = rapid.SampledFrom([]int{1, 7, 100, 5000, 1 << 20}).Draw(t, "piece")
				var streams []string
				size := 0
				for range rapid.IntRange(1, 3).Draw(t, "streams") {
					s := text(rng, rapid.IntRange(1, 3000).Draw(t, "distinct"), rapid.IntRange(0, 20000).Draw(t, "size"))
					streams = append(streams, string(s))
					size += len(s)
					if err := c.Read(context.Background(), bytes.NewReader(s)); err != nil {
						t.Fatal(err)
					}
				}
				want := naive(by, streams...)
				if got := collect(t, c, 0); !slices.Equal(got, want) {
					t.Fatalf("got %d items, want %d; first difference %v", len(got), len(want), firstDifference(got, want))
				}
				n := rapid.IntRange(1, 50).Draw(t, "top")
				if got := collect(t, c, n); !slices.Equal(got, want[:min(n, len(want))]) {
					t.Fatalf("top %d: got %v, want %v", n, got, want[:min(n, len(want))])
				}
			})
		})
	}
}

func firstDifference(got, want []result) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d: %v, want %v", i, got[i], want[i])
		}
	}
	return "at the end"
}

// TestManyItems exceeds the limits of the cache, of a round and of a range, with and without a
// temporary file.
func TestManyItems(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := text(rng, 1_000_000, 12<<20)
	want := naive(Words, string(s))
	for _, tt := range []struct {
		name   string
		memory int64
		h      arena.Hasher
	}{
		{"seeded", 0, arena.NewHasher()},
		{"four keys", 0, weak()},
		{"little memory", group.MinMemory, arena.NewHasher()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, Words, &Options{Workers: 4, Memory: tt.memory, TempDir: "/var/tmp"}, tt.h)
			if err := c.Read(t.Context(), bytes.NewReader(s)); err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{0, 1, 1000, maxHeap + 1, len(want) + 1} {
				first := want[:min(cmp.Or(n, len(want)), len(want))]
				if got := collect(t, c, n); !slices.Equal(got, first) {
					t.Fatal("different:", firstDifference(got, first))
				}
			}
			checkTotals(t, c, want, len(s))
			if spilled := c.groups.Spilled() > 0; spilled != (tt.memory > 0) {
				t.Errorf("in the temporary file is %v", spilled)
			}
		})
	}
}

// While few items repeat, the cache is bypassed. When items repeat again, they are counted in the
// cache.
func TestCacheRests(t *testing.T) {
	var b []byte
	for i := range 300_000 {
		b = fmt.Appendln(b, "line", i)
	}
	b = append(b, strings.Repeat("line 7\n", 1_000_000)...)
	c := open(t, Lines, &Options{Workers: 1}, arena.NewHasher())
	if err := c.Read(t.Context(), bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, c, 1); got[0] != (result{"line 7", 1_000_001}) {
		t.Errorf("the first is %v", got)
	}
	if n := len(top(t, c, 0)); n != 300_000 {
		t.Errorf("%d items", n)
	}
	if cap(c.workers[0].items) > 3*roundRows {
		t.Errorf("memory for %d rows", cap(c.workers[0].items))
	}
}

// The result depends neither on the seed nor on the schedule.
func TestSameResultEveryRun(t *testing.T) {
	s := text(rand.New(rand.NewPCG(5, 6)), 50_000, 1<<20)
	var first []result
	for run := range 6 {
		h := arena.NewHasher()
		if run%2 == 1 {
			h = weak()
		}
		c := open(t, Lines, &Options{Workers: 1 + run}, h)
		if err := c.Read(t.Context(), bytes.NewReader(s)); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, c, 0); first == nil {
			first = got
		} else if !slices.Equal(got, first) {
			t.Fatal("differs from the first run:", firstDifference(got, first))
		}
	}
}

func TestAgainstSort(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	s := bytes.ReplaceAll(text(rand.New(rand.NewPCG(7, 8)), 20_000, 1<<20), []byte{'\t'}, []byte("\n"))
	s = append(s, '\n')
	cmd := exec.CommandContext(t.Context(), sh, "-c",
		`sort | uniq -c | sed 's/^ *//' | sort -k1,1nr -s`)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdin = bytes.NewReader(s)
	want, err := cmd.Output()
	if err != nil {
		t.Skip("no sort and uniq:", err)
	}
	c := ofLines(t)
	if err := c.Read(t.Context(), bytes.NewReader(s)); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, x := range top(t, c, 0) {
		got = fmt.Appendf(got, "%d %s\n", x.Count, x.Bytes)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, sort and uniq print %d others", len(got), len(want))
	}
}

func TestVeryLongLine(t *testing.T) {
	size := 100 << 20
	if testing.Short() {
		size = 40 << 20
	}
	long := bytes.Repeat([]byte("0123456789abcde "), size/16)
	s := slices.Concat([]byte("a\n"), long, []byte("\na\n"), long, []byte("!\n"), long)
	c := ofLines(t)
	if err := c.Read(t.Context(), bytes.NewReader(s)); err != nil {
		t.Fatal(err)
	}
	want := []result{{string(long), 2}, {"a", 2}, {string(long) + "!", 1}}
	got := collect(t, c, 0)
	if !slices.Equal(got, want) {
		t.Errorf("got %d items of %v", len(got), c.Totals())
	}
}

func TestReaders(t *testing.T) {
	s := string(text(rand.New(rand.NewPCG(9, 10)), 100, 3000))
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte":      iotest.OneByteReader,
		"half":          iotest.HalfReader,
		"data with EOF": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, Words, nil, arena.NewHasher())
			if err := c.Read(t.Context(), wrap(strings.NewReader(s))); err != nil {
				t.Fatal(err)
			}
			if got, want := collect(t, c, 0), naive(Words, s); !slices.Equal(got, want) {
				t.Error("different:", firstDifference(got, want))
			}
		})
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	in := func() io.Reader { return strings.NewReader(strings.Repeat("a b c ", 1000)) }
	for _, tt := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"reader", io.MultiReader(in(), iotest.ErrReader(broken)), broken},
		{"reader without progress", emptyReader{}, io.ErrNoProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, Words, nil, arena.NewHasher())
			if err := c.Read(t.Context(), tt.r); !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
			if err := c.Read(t.Context(), in()); !errors.Is(err, tt.want) {
				t.Errorf("a later Read returned %v, want the first error again", err)
			}
		})
	}
}

// Read returns even if the reader blocks.
func TestCancel(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := ofLines(t)
	done := make(chan error)
	go func() { done <- c.Read(ctx, r) }()
	w.Write([]byte("some bytes"))
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Read does not return")
	}
}

func TestProgress(t *testing.T) {
	sum := 0
	c := open(t, Lines, &Options{Progress: func(n int) { sum += n }}, arena.NewHasher())
	for range 3 {
		if err := c.Read(t.Context(), strings.NewReader(strings.Repeat("line\n", 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if sum != 1_500_000 {
		t.Errorf("progress of %d bytes, want 1500000", sum)
	}
}
