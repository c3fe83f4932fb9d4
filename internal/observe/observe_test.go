package observe

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// box is a structure. It contains a pointer, so that it shares its memory with no other object.
type box struct {
	pairs *int
}

func (b *box) sizes() (int, int) { return *b.pairs, 8 * *b.pairs }

// account returns the account of a package.
func account(name string) Structure {
	for _, s := range Read() {
		if s.Name == name {
			return s
		}
	}
	return Structure{}
}

// until waits until the garbage collector has run the cleanups that make done true.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
		runtime.GC()
	}
}

func TestAccounts(t *testing.T) {
	defer func() { delete(accounts.all, "boxes") }() // as if there had been none
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	two, three := 2, 3
	a, b := &box{&two}, &box{&three}
	x, y := Track(a, "boxes", logger, (*box).sizes), Track(b, "boxes", logger, (*box).sizes)
	if got, want := account("boxes"), (Structure{Name: "boxes", Open: 2, Pairs: 5, Bytes: 40}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	x.Closed()
	Rehashed("boxes", logger, time.Now().Add(-time.Hour), 100, "from", 7)
	Rehashed("boxes", logger, time.Now().Add(-time.Hour), 50)
	got := account("boxes")
	if got.RehashTime < 2*time.Hour || got.RehashTime > 3*time.Hour {
		t.Errorf("rehashes took %v, want two hours", got.RehashTime)
	}
	got.RehashTime = 0
	if want := (Structure{Name: "boxes", Open: 1, Pairs: 3, Bytes: 24, Rehashes: 2, RehashBytes: 150}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if want := `level=DEBUG msg="boxes: rehash" from=7 bytes=100 took=1h0m0`; !strings.Contains(log.String(), want) {
		t.Errorf("logs %q, want %q", &log, want)
	}
	y.Closed()
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// buffer is a buffer that can be read during writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// forget makes a structure and drops it, after Close if closed is set.
func forget(logger *slog.Logger, closed bool) {
	n := 1
	x := Track(&box{&n}, "forgotten", logger, (*box).sizes)
	if closed {
		x.Closed()
	}
}

// A structure that is collected without Close is logged with the place that made it. The default
// logger logs it if the structure has no enabled logger. A closed structure is not logged.
func TestCollected(t *testing.T) {
	var own, process buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&process, nil)))
	defer slog.SetDefault(before)
	for i, logger := range []*slog.Logger{nil, slog.New(slog.DiscardHandler), slog.New(slog.NewTextHandler(&own, nil))} {
		forget(logger, false)
		forget(logger, true)
		until(t, func() bool { return strings.Count(own.String()+process.String(), "\n") == i+1 })
	}
	if got := account("forgotten"); got.Open != 0 || got.Pairs != 0 || got.Collected < 3 {
		t.Errorf("still in the accounts: %+v", got)
	}
	for name, log := range map[string]struct {
		text  string
		lines int
	}{"own": {own.String(), 1}, "process": {process.String(), 2}} {
		if n := strings.Count(log.text, "forgotten: collected without Close"); n != log.lines {
			t.Errorf("%s: %d lines, want %d: %s", name, n, log.lines, log.text)
		}
	}
}

// where returns the calls of users, without those in weft or the runtime.
func TestWhere(t *testing.T) {
	pcs := make([]uintptr, 8)
	x := Tracked{made: pcs[:runtime.Callers(1, pcs)]}
	where := x.where()
	if !strings.HasPrefix(where, "testing.tRunner (testing.go:") || strings.Contains(where, "goexit") {
		t.Errorf("made in %q", where)
	}
}

// BenchmarkTrack measures what Track and Closed add to the cost of a structure.
func BenchmarkTrack(b *testing.B) {
	n := 1
	for b.Loop() {
		Track(&box{&n}, "measured", nil, (*box).sizes).Closed()
	}
}
