package prim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
)

var (
	measureRows = flag.Int("prim.rows", 0, "measure with that many `rows`; 100000000 is what results are for")
	measureJSON = flag.String("prim.json", "/dev/stdout", "`file` for what was measured")
)

// A measurement is a rate in G rows/s over several runs, and its share of the limit of the memory.
// At the limit, each byte of a row is accessed as often as the algorithm requires.
type measurement struct {
	Name   string  `json:"name"`
	Rows   int     `json:"rows"`
	Median float64 `json:"g_rows_per_s"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Bytes  float64 `json:"bytes_per_row"`
	Share  float64 `json:"share_of_copy,omitempty"`
}

type measurements struct {
	Device  string        `json:"device"`
	Driver  string        `json:"driver"`
	Copy    float64       `json:"copy_gb_per_s"` // read and written
	Results []measurement `json:"results"`
}

// A meter times operations on columns that are long enough for the largest operation.
type meter struct {
	*rig
	start, end *device.Event
	scratch    device.Buffer
	out        measurements
}

const measureRuns = 7

func (m *meter) rate(name string, rows int, bytes float64, work func() error) {
	m.Helper()
	var rates []float64
	for range measureRuns + 1 {
		m.must(m.stream.Record(m.start))
		m.must(work())
		m.must(m.stream.Record(m.end))
		m.must(m.end.Sync(m.Context()))
		took, err := m.end.Since(m.start)
		m.must(err)
		rates = append(rates, float64(rows)/float64(took.Nanoseconds()))
	}
	rates = rates[1:] // the first run loads the kernels
	slices.Sort(rates)
	r := measurement{Name: name, Rows: rows, Median: rates[measureRuns/2], Min: rates[0], Max: rates[measureRuns-1], Bytes: bytes}
	if m.out.Copy > 0 {
		r.Share = r.Median * bytes / m.out.Copy
	}
	m.out.Results = append(m.out.Results, r)
}

// TestMeasure compares the primitives with the memory's speed.
func TestMeasure(t *testing.T) {
	if *measureRows == 0 {
		t.Skip("give -prim.rows")
	}
	m := &meter{rig: onGPU(t)}
	n := *measureRows
	var err error
	m.start, err = m.dev.NewEvent()
	m.must(err)
	m.end, err = m.dev.NewEvent()
	m.must(err)
	m.scratch = m.rig.scratch((&Sort{Widths: Widths{8, 8}, N: n, Hi: 64}).ScratchBytes() + n)
	random := make([]uint64, n)
	for i := range random {
		random[i] = m.rng.Uint64()
	}
	a, b, c, d := upload(m.rig, random), upload(m.rig, random), results[uint64](m.rig, n), results[uint64](m.rig, n+1)
	p := m.dev.Properties()
	m.out.Device, m.out.Driver = p.Name, p.Driver
	m.rate("copy", n, 16, func() error { return m.stream.Copy(c.Ptr(), a.Ptr(), 8*n) })
	m.out.Copy = 16 * m.out.Results[0].Max
	m.out.Results[0].Share = m.out.Results[0].Median / m.out.Results[0].Max
	m.sorts(n, Rows{a.Ptr(), b.Ptr()}, Rows{c.Ptr(), d.Ptr()})
	m.scans(n, a.Ptr(), d.Ptr())
	m.groups(n, c, d)
	m.reductions(n, a.Ptr(), c, d)
	text, err := json.MarshalIndent(m.out, "", "\t")
	m.must(err)
	m.must(os.WriteFile(*measureJSON, append(text, '\n'), 0o644))
	for _, s := range []device.Slice[uint64]{a, b, c, d} {
		m.must(s.Free())
	}
	m.release(m.scratch)
	m.must(m.start.Close())
	m.must(m.end.Close())
}

func (m *meter) sorts(n int, from, to Rows) {
	offsets := results[uint32](m.rig, bins+1)
	measure := func(w Widths, n, bits int) {
		o := &Sort{Widths: w, N: n, Hi: bits, From: from, To: to}
		name := fmt.Sprintf("%d bits of %d-bit keys with %d", bits, 8*w.Key, 8*w.Val)
		bytes := float64(2*o.passes()*(w.Key+w.Val) + w.Key)
		if bits <= digitBits {
			m.rate("partition by "+name, n, bytes, func() error { return m.prim.Partition(m.stream, o, offsets.Ptr(), m.scratch) })
		} else {
			m.rate("sort by "+name, n, bytes, func() error { return m.prim.Sort(m.stream, o, m.scratch) })
		}
	}
	for _, key := range []int{4, 8} {
		for _, val := range []int{0, 4, 8} {
			for _, bits := range []int{8, 16, 32, 64} {
				if bits <= 8*key {
					measure(Widths{key, val}, n, bits)
				}
			}
		}
	}
	for small := 1 << 10; small <= n; small <<= 2 {
		measure(Widths{4, 4}, small, 32)
	}
	m.must(offsets.Free())
}

func (m *meter) scans(n int, counts, offsets device.Ptr) {
	for _, width := range []int{4, 8} {
		for small := n; small >= 1<<10; small /= 16 {
			o := &Scan{N: small, Width: width, Counts: counts, Offsets: offsets}
			m.rate(fmt.Sprintf("scan to %d bits", 8*width), small, float64(4+width), func() error { return m.prim.Scan(m.stream, o, m.scratch) })
		}
	}
}

// groups needs sorted keys, in segments of 1 to 15.
func (m *meter) groups(n int, keys, offsets device.Slice[uint64]) {
	count := results[uint32](m.rig, 1)
	sorted64, sorted32, segments, key := make([]uint64, n), make([]uint32, n), 0, uint64(0)
	for i := range sorted64 {
		if i == 0 || m.rng.IntN(8) == 0 {
			key, segments = key+m.rng.Uint64N(9)+1, segments+1
		}
		sorted64[i], sorted32[i] = key, uint32(key)
	}
	for _, width := range []int{4, 8} {
		columns := device.Bytes(sorted32)
		if width == 8 {
			columns = device.Bytes(sorted64)
		}
		m.must(m.stream.CopyIn(keys.Ptr(), columns))
		o := &Group{N: n, Key: width, Keys: keys.Ptr(), Offsets: offsets.Ptr(), Count: count.Ptr()}
		m.rate(fmt.Sprintf("group %d-bit keys, 8 a segment", 8*width), n, float64(width)+4*float64(segments)/float64(n), func() error {
			return m.prim.Group(m.stream, o, m.scratch)
		})
	}
	m.must(count.Free())
}

func (m *meter) reductions(n int, vals device.Ptr, out, offsets device.Slice[uint64]) {
	for _, length := range []int{1, 8, 1000, n} {
		at := []uint32{0}
		for i := 0; i < n; {
			i = min(n, i+1+m.rng.IntN(2*length-1))
			at = append(at, uint32(i))
		}
		m.must(m.stream.CopyIn(offsets.Ptr(), device.Bytes(at)))
		segments := len(at) - 1
		for _, typ := range []Number{Uint32, Uint64, Float64} {
			o := &Reduce{Op: Sum, Type: typ, N: n, Segments: segments, Width: 4, Values: vals, Offsets: offsets.Ptr(), Out: out.Ptr()}
			width := numbers[typ].width
			name := fmt.Sprintf("sum of %s, %d a segment", numbers[typ].name, length)
			m.rate(name, n, float64(width)+float64(4+width)*float64(segments)/float64(n), func() error { return m.prim.Reduce(m.stream, o, m.scratch) })
		}
	}
}
