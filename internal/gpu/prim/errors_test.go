package prim

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

func TestNoKernels(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if _, err := Load(dev); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("Load on a CPU: %v, want %v", err, device.ErrNoKernels)
	}
}

// Each case breaks one property of a valid operation.
func TestInvalid(t *testing.T) {
	r := onGPU(t)
	const n = 100
	column := results[uint64](r, n)
	at := column.Ptr()
	scratch := r.scratch(1 << 20)
	cases := map[string]func(sort *Sort, scan *Scan, group *Group, reduce *Reduce, scratch *device.Buffer){
		"negative length": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) { s.N, c.N, g.N, d.N = -1, -1, -1, -1 },
		"too long": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.N, c.N, g.N, d.N = MaxRows+1, MaxRows+1, MaxRows+1, MaxRows+1
		},
		"width": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.Key, c.Width, g.Key, d.Width = 2, 2, 2, 2
		},
		"no input": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.From.Keys, c.Counts, g.Keys, d.Values = 0, 0, 0, 0
		},
		"no output": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.To.Keys, c.Offsets, g.Offsets, d.Out = 0, 0, 0, 0
		},
		"misaligned": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.To.Vals++
			c.Counts++
			g.Distinct++
			d.Offsets++
		},
		"no scratch":         func(_ *Sort, _ *Scan, _ *Group, _ *Reduce, b *device.Buffer) { b.Size = 256 },
		"misaligned scratch": func(_ *Sort, _ *Scan, _ *Group, _ *Reduce, b *device.Buffer) { b.Ptr += 128 },
		"other": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.Hi, c.Width, g.Count, d.Op = s.Lo, 0, 0, Max+1
		},
		"yet others": func(s *Sort, c *Scan, g *Group, d *Reduce, _ *device.Buffer) {
			s.Signed, c.N, g.Count, d.Segments = true, -1, 2, -1
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			sort := &Sort{Widths: Widths{4, 4}, N: n, Hi: 20, From: Rows{at, at}, To: Rows{at + 4*n, at + 4*n}}
			scan := &Scan{N: n, Width: 4, Counts: at, Offsets: at}
			group := &Group{N: n, Key: 4, Keys: at, Offsets: at, Count: at, Distinct: at}
			reduce := &Reduce{Type: Uint32, N: n, Segments: n, Width: 4, Values: at, Offsets: at, Out: at}
			buf := scratch
			change(sort, scan, group, reduce, &buf)
			for i, err := range []error{
				r.prim.Sort(r.stream, sort, buf), r.prim.Scan(r.stream, scan, buf), r.prim.Group(r.stream, group, buf), r.prim.Reduce(r.stream, reduce, buf),
			} {
				if !errors.Is(err, device.ErrInvalid) {
					t.Errorf("operation %d: %v", i, err)
				}
			}
		})
	}
	wide := &Sort{Widths: Widths{4, 0}, N: n, Hi: 9, From: Rows{Keys: at}, To: Rows{Keys: at + 4*n}}
	narrow := &Sort{Widths: Widths{4, 0}, N: n, Hi: 8, From: Rows{Keys: at}, To: Rows{Keys: at + 4*n}}
	for _, err := range []error{r.prim.Partition(r.stream, wide, at, scratch), r.prim.Partition(r.stream, narrow, 0, scratch)} {
		if !errors.Is(err, device.ErrInvalid) {
			t.Errorf("partition: %v", err)
		}
	}
	if check("", MaxRows, 0, device.Buffer{}) != nil || check("", MaxRows+1, 0, device.Buffer{}) == nil {
		t.Errorf("not %d rows are possible", MaxRows)
	}
	if wide.Lo = -1; wide.ScratchBytes() != 0 {
		t.Error("scratch memory for a sort that is not valid")
	}
	r.release(scratch)
	r.must(column.Free())
}
