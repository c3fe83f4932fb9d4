package metrics

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/lsm"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
	"github.com/weftgo/weft/sorted"
)

// forgotten makes a structure of each package on a device, uses it, and closes none.
var forgotten = map[string]func(t *testing.T, dev device.Device){
	"linear":  func(t *testing.T, dev device.Device) { use(t)(linear.New[uint32, uint32](dev, nil)) },
	"slab":    func(t *testing.T, dev device.Device) { use(t)(slab.New[uint32, uint32](dev, nil)) },
	"cuckoo":  func(t *testing.T, dev device.Device) { use(t)(cuckoo.New[uint32, uint32](dev, nil)) },
	"horton":  func(t *testing.T, dev device.Device) { use(t)(horton.New[uint32, uint32](dev, nil)) },
	"sorted":  func(t *testing.T, dev device.Device) { use(t)(sorted.New[uint32, uint32](dev, nil)) },
	"lsm":     func(t *testing.T, dev device.Device) { use(t)(lsm.New[uint32, uint32](dev, nil)) },
	"ordered": func(t *testing.T, dev device.Device) { use(t)(ordered.New[uint32, uint32](dev, nil)) },
	"btree":   func(t *testing.T, dev device.Device) { use(t)(btree.New[uint32, uint32](dev, nil)) },
}

// log is a buffer that may be read while others write.
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

// What nobody closes is collected, whatever its device still knows of it, and said so, with the call that
// made it.
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

// usable are the maps.
type usable interface {
	Len() int
}

// use fails on errors of a constructor, and looks at what it has made.
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
