package feed

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// rows returns columns. One is not copied, and one is page-locked on a device.
func rows(
	t testing.TB, dev device.Device, n int,
) (columns []column.Column, wide []uint64, valid []bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	wide, valid = make([]uint64, n), make([]bool, n+5)
	narrow := make([]uint8, n)
	for i := range n {
		wide[i], narrow[i] = rng.Uint64(), uint8(i)
	}
	for i := range valid {
		valid[i] = rng.IntN(3) > 0
	}
	memory, err := dev.AllocHost(max(1, 8*n))
	must(t, err)
	t.Cleanup(func() { must(t, dev.FreeHost(memory)) })
	locked, err := column.OfRaw(column.Uint64, memory[:copy(memory, device.Bytes(wide))])
	must(t, err)
	bits := column.OfBools(valid).Slice(5, n+5)
	return []column.Column{locked, {}, column.Of(narrow).WithValid(bits)}, wide, valid[5:]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tryRun feeds batches, copies each piece to other memory on the device, and compares.
func tryRun(t testing.TB, dev device.Device, sizes ...int) {
	s := devicetest.NewStream(t, dev)
	f, err := New(s, 900)
	must(t, err)
	for _, n := range sizes {
		columns, wide, valid := rows(t, dev, n)
		gotWide, err := device.Make[uint64](dev, n)
		must(t, err)
		gotNarrow, err := device.Make[uint8](dev, n)
		must(t, err)
		gotBits, err := device.Make[uint8](dev, 2*n)
		must(t, err)
		offsets, at := map[int]int{}, 0 // of pieces, in bits
		err = f.Run(t.Context(), columns, n, func(p *Piece) error {
			if p.Columns[1] != (Column{}) || p.Columns[0].Valid != 0 {
				t.Errorf("columns %+v", p.Columns)
			}
			narrow := p.Columns[2]
			bytes := (narrow.Offset + p.N + 7) / 8
			offsets[p.First], at = 8*at+narrow.Offset, at+bytes
			return errors.Join(
				s.Copy(gotWide.Ptr()+device.Ptr(8*p.First), p.Columns[0].Values, 8*p.N),
				s.Copy(gotNarrow.Ptr()+device.Ptr(p.First), narrow.Values, p.N),
				s.Copy(gotBits.Ptr()+device.Ptr(at-bytes), narrow.Valid, bytes))
		})
		must(t, err)
		for _, c := range columns {
			clear(c.Raw()) // the feed has read it
		}
		bits := column.OfBits(devicetest.Download(t, s, gotBits.Sub(0, at)), 0, 8*at)
		got, narrow := devicetest.Download(t, s, gotWide), devicetest.Download(t, s, gotNarrow)
		if !slices.Equal(got, wide) {
			t.Errorf("%d rows: other values", n)
		}
		offset := 0
		for i := range n {
			if o, ok := offsets[i]; ok {
				offset = o - i
			}
			if bits.At(i+offset) != valid[i] || narrow[i] != uint8(i) {
				t.Fatalf("row %d of %d: %d, valid %v", i, n, narrow[i], bits.At(i+offset))
			}
		}
		must(t, errors.Join(gotWide.Free(), gotNarrow.Free(), gotBits.Free()))
	}
	must(t, f.Close())
}

// tryHurry closes the feed while work is running, without waiting.
func tryHurry(t testing.TB, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	f, err := New(s, 900)
	must(t, err)
	got, err := device.Make[uint64](dev, 500)
	must(t, err)
	for _, n := range []int{1, 500} {
		columns, _, _ := rows(t, dev, n)
		must(t, f.Run(t.Context(), columns, n, func(p *Piece) error {
			return s.Copy(got.Ptr()+device.Ptr(8*p.First), p.Columns[0].Values, 8*p.N)
		}))
	}
	must(t, f.Close())
	must(t, errors.Join(s.Sync(t.Context()), got.Free()))
}

// Pieces have the rows of columns, in order, and no copy overwrites memory in use.
func TestRun(t *testing.T) {
	tryRun(t, devicetest.OpenSim(t, nil), 1, 700, 30, 64, 65, 1000, 1)
}

// If a context ends or work fails, Run still returns only after all copies, so that the columns may
// change.
func TestRunEnds(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	before := devicetest.Live(dev)
	failure := errors.New("work that fails")
	for after := range 4 {
		ctx, end := context.WithCancel(t.Context())
		s, err := dev.NewStream()
		must(t, err)
		f, err := New(s, 900)
		must(t, err)
		columns := []column.Column{column.Of(make([]uint64, 500))}
		pieces := 0
		err = f.Run(ctx, columns, 500, func(*Piece) error {
			if pieces++; pieces == after {
				return failure
			}
			return nil
		})
		if after > 0 && (!errors.Is(err, failure) || pieces != after) {
			t.Errorf("%d pieces: %v", pieces, err)
		}
		end()
		if after == 0 {
			must(t, err)
			if err := f.Run(ctx, columns, 500, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a context that has ended: %v", err)
			}
		}
		must(t, errors.Join(f.Close(), s.Close()))
		if live := devicetest.Live(dev); live != before {
			t.Errorf("%+v are left of %+v", live, before)
		}
	}
}

// Any failing operation is returned as an error, and no memory leaks.
func TestFailures(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	columns, _, _ := rows(t, dev, 400)
	devicetest.FailEach(t, dev, "a feed", func() (err error) {
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		f, err := New(s, 900)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		for _, n := range []int{64, 400} {
			some := make([]column.Column, len(columns))
			for i, c := range columns {
				if c.Len() > 0 {
					some[i] = c.Slice(0, n)
				}
			}
			if err := f.Run(t.Context(), some, n, func(*Piece) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

// The tests fail if any call that orders streams or waits for them is omitted.
func TestOmissionsAreNoticed(t *testing.T) {
	var tries []dst.Try
	for seed := range uint64(4) {
		tries = append(tries, dst.SimTry(t, seed, func(t testing.TB, dev device.Device, _ uint64) {
			tryRun(t, dev, 1, 500, 64, 900)
			tryHurry(t, dev)
		}))
	}
	dst.Omit(t, ".", nil, tries...)
}
