package metrics

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/join"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/lsm"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
	"github.com/weftgo/weft/sorted"
)

// forgotten makes a structure of each package on a device, uses the structure, and does not close
// it.
var forgotten = map[string]func(t *testing.T, dev device.Device){
	"linear":  func(t *testing.T, dev device.Device) { use(t)(linear.New[uint32, uint32](dev, nil)) },
	"slab":    func(t *testing.T, dev device.Device) { use(t)(slab.New[uint32, uint32](dev, nil)) },
	"cuckoo":  func(t *testing.T, dev device.Device) { use(t)(cuckoo.New[uint32, uint32](dev, nil)) },
	"horton":  func(t *testing.T, dev device.Device) { use(t)(horton.New[uint32, uint32](dev, nil)) },
	"sorted":  func(t *testing.T, dev device.Device) { use(t)(sorted.New[uint32, uint32](dev, nil)) },
	"lsm":     func(t *testing.T, dev device.Device) { use(t)(lsm.New[uint32, uint32](dev, nil)) },
	"ordered": func(t *testing.T, dev device.Device) { use(t)(ordered.New[uint32, uint32](dev, nil)) },
	"btree":   func(t *testing.T, dev device.Device) { use(t)(btree.New[uint32, uint32](dev, nil)) },
	"intern":  func(t *testing.T, dev device.Device) { use(t)(intern.New(dev, nil)) },
	"join": func(t *testing.T, dev device.Device) {
		ix, err := join.New(t.Context(), dev, []column.Column{column.Of([]int64{7})}, nil)
		if err != nil || ix.Len() != 1 {
			t.Fatal(err)
		}
	},
	"group": func(t *testing.T, dev device.Device) {
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		keys, err := device.Upload(s, []int64{1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := join.NewOn(t.Context(), s, keys); err != nil {
			t.Fatal(err)
		}
		g, err := group.NewOn(dev, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(g.AddOn(s, []column.On{column.OfSlice(keys)}, nil), s.Sync(t.Context()), s.Close(), keys.Free()); err != nil {
			t.Fatal(err)
		}
	},
}

// log is a buffer that can be read during writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Structures that are never closed are collected, even if their device still refers to them. The
// log message names the call that made them.
func TestCollected(t *testing.T) {
	var text log
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	host, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	gpu, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	want := make(map[string]int)
	for name, forget := range forgotten {
		forget(t, host)
		forget(t, gpu)
		want[name] = 2
	}
	want["join"] = 4 // and those of columns on a device
	forgetGraph(t, host)
	want["graph"] = 1
	for name, n := range want {
		said := name + ": collected without Close"
		for deadline := time.Now().Add(20 * time.Second); strings.Count(text.String(), said) < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d of %d are collected\n%s", name, strings.Count(text.String(), said), n, &text)
			}
			runtime.GC()
		}
	}
	for line := range strings.Lines(text.String()) {
		if !strings.Contains(line, "leak_test.go:") || strings.Contains(line, "weft/internal") {
			t.Errorf("made where? %s", line)
		}
	}
	for _, s := range Structures() {
		if s.Open != 0 || s.Collected < want[s.Name] {
			t.Errorf("%+v, want %d collected", s, want[s.Name])
		}
	}
}

type usable interface {
	Len() int
}

// use fails the test if a constructor returns an error, else it uses the new structure.
func use(t *testing.T) func(m usable, err error) {
	return func(m usable, err error) {
		t.Helper()
		if err != nil || m.Len() != 0 {
			t.Fatal(m, err)
		}
	}
}

func forgetGraph(t *testing.T, dev device.Device) {
	g, err := graph.New(dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil); err != nil {
		t.Fatal(err)
	}
}
