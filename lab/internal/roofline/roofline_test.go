package roofline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

var small = Options{Region: 1 << 20, Ops: 1 << 13, Runs: 3}

func TestMeasuresEveryLimit(t *testing.T) {
	dev := devicetest.Open(t)
	got, err := Measure(t.Context(), dev, &small)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names(dev.Properties()) {
		if !(got.Limits[name] > 0) {
			t.Errorf("%s: %g %s", name, got.Limits[name], Unit(name))
		}
		if got.Flight[name] == 0 {
			t.Errorf("%s: no setting recorded", name)
		}
		if Describe(name) == name {
			t.Errorf("%s is not described", name)
		}
	}
	if len(got.Limits) != len(Names(dev.Properties())) {
		t.Errorf("limits %v, want those of Names", got.Limits)
	}
	if got.Region != small.Region || got.Ops != small.Ops {
		t.Errorf("used %d bytes, %d operations; want those of the options", got.Region, got.Ops)
	}
}

func TestMeasuresOnlyWhatIsAsked(t *testing.T) {
	opts := small
	opts.Only = []string{CAS64, Read16} // the second does not exist on a CPU
	got, err := Measure(t.Context(), devicetest.OpenCPU(t, 1), &opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Limits) != 1 || !(got.Limits[CAS64] > 0) {
		t.Errorf("limits %v, want %s alone", got.Limits, CAS64)
	}
}

// Wherever the device fails, the error is returned and nothing leaks.
func TestDeviceFailures(t *testing.T) {
	dev := devicetest.Open(t)
	opts := small
	opts.Runs = 1
	before := devicetest.Live(dev)
	step := 1
	if dev.Properties().Kind == device.CUDA {
		step = 11 // each of hundreds takes a second there
	}
	for n := 0; ; n += step {
		fired := devicetest.FailAfter(dev, n)
		_, err := Measure(t.Context(), dev, &opts)
		if !fired() {
			if err != nil {
				t.Errorf("without a failure: %v", err)
			}
			if n == 0 {
				t.Error("the device was asked for nothing")
			}
			devicetest.ClearFailures(dev)
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Errorf("failure of operation %d: %v", n, err)
		}
		if after := devicetest.Live(dev); after != before {
			t.Fatalf("failure of operation %d leaves %+v, before %+v", n, after, before)
		}
	}
}

// A limit in a region has a name that includes both, and the limit's unit.
func TestRegionsInNames(t *testing.T) {
	for region, want := range map[int]string{256: "copy@256B", 1 << 10: "copy@1KiB", 1 << 19: "copy@512KiB", 1 << 26: "copy@64MiB", 1 << 33: "copy@8GiB"} {
		name := In(Copy, region)
		limit, size := Split(name)
		if name != want || limit != Copy || size != region || Unit(name) != "B/s" || !strings.HasPrefix(Describe(name), Describe(Copy)+" in ") {
			t.Errorf("in %d bytes: %s, of %s in %d, %s, %s", region, name, limit, size, Unit(name), Describe(name))
		}
	}
	for _, name := range []string{Read64, "mixed_read16_cas64", "a@", "a@MiB", "a@3", "a@3miles"} {
		if limit, region := Split(name); limit != name || region != 0 {
			t.Errorf("%s: %s in %d bytes", name, limit, region)
		}
	}
}

func TestResultIsJSON(t *testing.T) {
	data, err := json.Marshal(Result{Region: 1, Limits: map[string]float64{Copy: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"region_bytes":1`, `"limits":{"copy":2}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %s", data, want)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	if _, err := Measure(t.Context(), dev, &Options{Region: -1}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("negative region: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, dev, &small); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Random reads must depend on the size of the region. A region that fits in no cache cannot be
// faster than a region that fits in the first cache.
func TestLargeRegionsAreSlower(t *testing.T) {
	if testing.Short() {
		t.Skip("allocates 256 MiB")
	}
	dev := devicetest.OpenCPU(t, 1)
	rate := func(region int) float64 {
		r, err := Measure(t.Context(), dev, &Options{Region: region, Ops: 1 << 18, Only: []string{Read64OneCore}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Limits[Read64OneCore]
	}
	if cache, memory := rate(1<<14), rate(1<<28); memory > cache {
		t.Errorf("memory %g op/s, cache %g op/s", memory, cache)
	}
}

// Every read of a group must reach its query's result, and the rest of a range that fills no group
// must be done, too.
func TestReadsAndSwapsDoWhatIsTimed(t *testing.T) {
	const n = 100 // not a multiple of a group
	for name, body := range map[string]func(h *host, lo, hi int){
		"singly": (*host).readSingly, "8": (*host).read8, "32": (*host).read32,
	} {
		h := newTestHost(n)
		body(h, 0, n)
		for i, r := range h.result {
			if want := h.region[address(uint64(i), len(h.region)/lineLen)*lineLen] + uint64(i); r != want {
				t.Fatalf("read %s: query %d came to %d, want %d", name, i, r, want)
			}
		}
	}
	for name, body := range map[string]func(h *host, lo, hi int){"singly": (*host).swapSingly, "16": (*host).swap16} {
		h := newTestHost(n)
		clear(h.region)
		body(h, 0, n)
		for i := range uint64(n) {
			if h.region[address(i, len(h.region))] == 0 {
				t.Fatalf("swap %s: query %d swapped nothing", name, i)
			}
		}
	}
}

func newTestHost(n int) *host {
	h := &host{region: make([]uint64, 1<<10), queries: make([]uint64, n), result: make([]uint64, n)}
	for i := range h.region {
		h.region[i] = uint64(i) << 32
	}
	for i := range h.queries {
		h.queries[i] = uint64(i)
	}
	return h
}

func TestMedianSkipsTheWarmUp(t *testing.T) {
	times := []time.Duration{100, 3, 1, 2}
	i := -1
	got, err := Median(t.Context(), 3, func() (time.Duration, error) { i++; return times[i], nil })
	if err != nil || got != 2 || i != 3 {
		t.Errorf("median %v, %v after %d calls; want 2ns after 4", got, err, i+1)
	}
	wantErr := errors.New("broken")
	if _, err := Median(t.Context(), 3, func() (time.Duration, error) { return 0, wantErr }); err != wantErr {
		t.Errorf("error %v, want that of the measurement", err)
	}
}

// Entry points are listed twice: in the kernels' source, by macros, and in the table of accesses.
func TestKernelsMatchTheTable(t *testing.T) {
	if len(rooflineImage.Targets) == 0 {
		t.Fatal("no compiled kernels")
	}
	for _, target := range rooflineImage.Targets {
		want := []string{"roofline_empty", "roofline_queries"}
		for _, a := range accesses {
			for _, f := range inFlight {
				want = append(want, a.kernel+"_"+string(rune('0'+f)))
			}
		}
		var got []string
		entry := regexp.MustCompile(`\.entry (\w+)\(\s*\.param \.align 8 \.b8 \w+\[(\d+)\]`)
		for _, m := range entry.FindAllStringSubmatch(target.PTX, -1) {
			got = append(got, m[1])
			if size := unsafe.Sizeof(params{}); m[2] != "40" || size != 40 {
				t.Errorf("sm_%d: %s takes %s bytes, params has %d", target.Arch, m[1], m[2], size)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want) // some work in several memories
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("sm_%d: entry points\n%v, want\n%v", target.Arch, got, want)
		}
	}
}

// blockOps must be a multiple of the queries of every kernel's block. Otherwise queries would be
// left out or read past the end.
func TestOpsFillBlocks(t *testing.T) {
	for _, a := range accesses {
		for _, f := range inFlight {
			if perBlock := block / a.lanes * f; blockOps%perBlock != 0 {
				t.Errorf("%s with %d in flight: a block does %d, which doesn't divide %d", a.limit, f, perBlock, blockOps)
			}
		}
	}
	source, err := os.ReadFile("roofline.cu")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "kBlock = 256;") || block != 256 {
		t.Error("block size differs between roofline.cu and gpu.go")
	}
}

// A GPU reads host memory over the bus, and all of it is returned.
func TestMappedMemory(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	opts := Options{Region: 1 << 16, Ops: blockOps, Runs: 1, Only: []string{MappedRead32, MappedRead128, MappedCAS64}}
	got, err := Measure(t.Context(), dev, &opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range opts.Only {
		if !(got.Limits[name] > 0) || Describe(name) == name {
			t.Errorf("%s: %g %s", name, got.Limits[name], Unit(name))
		}
	}
}
