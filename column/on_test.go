package column_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Columns come back from a device unchanged, with nulls, for slices and bitmaps at any offset.
func TestOn(t *testing.T) {
	for name, dev := range map[string]device.Device{"cpu": devicetest.OpenCPU(t, 1), "sim": devicetest.OpenSim(t, nil)} {
		s := devicetest.NewStream(t, dev)
		valid := column.OfBools([]bool{true, false, true, true, false})
		for _, c := range []column.Column{
			column.Of([]int8{1, -2, 3, 4, 5}), column.Of([]uint16{1, 2, 3, 4, 5}).WithValid(valid), column.Of([]float64{1, 2, 3, 4, 5}),
			column.Of([]bool{true, false, true, true, false}).WithValid(valid), column.Of([]int{}), column.Of([]int32{9, 8, 7, 6, 5}).WithValid(valid).Slice(1, 4),
		} {
			on, err := column.Upload(s, c)
			if err != nil {
				t.Fatal(err)
			}
			for lo := range c.Len() + 1 {
				part := on.Slice(lo, c.Len())
				back, err := part.Download(t.Context(), s)
				if want := c.Slice(lo, c.Len()); err != nil || back.Type() != c.Type() || !slices.Equal(all(back), all(want)) {
					t.Errorf("%s: %v is %v, want %v; %v", name, c.Type(), all(back), all(want), err)
				}
				if host, ok := dev.(device.Host); ok && !slices.Equal(all(part.Host()), all(c.Slice(lo, c.Len()))) {
					t.Errorf("on %v it is %v", host.Properties().Kind, all(part.Host()))
				}
			}
			if err := errors.Join(s.Sync(context.Background()), on.Free(), on.Free()); err != nil {
				t.Error(err)
			}
		}
	}
}

func all(c column.Column) (vs []any) {
	for i := range c.Len() {
		vs = append(vs, c.Any(i))
	}
	return vs
}

// OfSlice does not copy. Values of another type panic.
func TestOfSlice(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	s := devicetest.NewStream(t, dev)
	memory := devicetest.Upload(t, s, []int64{1, 2, 3})
	c := column.OfSlice(memory).WithValid(devicetest.Upload(t, s, []uint8{0b1011_0000}), 4)
	if got := column.SliceOf[int64](c); got.Ptr() != memory.Ptr() || got.Len() != 3 || c.Device() != dev || !c.HasNulls() {
		t.Errorf("another slice: %+v", got)
	}
	back, err := c.Download(t.Context(), s)
	if want := []any{int64(1), int64(2), nil}; err != nil || !slices.Equal(all(back), want) {
		t.Errorf("%v, want %v; %v", all(back), want, err)
	}
	if err := c.Free(); err != nil || column.SliceOf[int64](c).Len() != 3 {
		t.Errorf("the caller's memory has been freed: %v", err)
	}
	for want, call := range map[string]func(){
		"float32 requested from a column of int64": func() { column.SliceOf[float32](c) },
		"values 1 to 4 of 3":                       func() { c.Slice(1, 4) },
		"3 bits from 6 on in 1 bytes":              func() { c.WithValid(devicetest.Upload(t, s, []uint8{1}), 6) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
					t.Errorf("%s, want %s", msg, want)
				}
			}()
			call()
		}()
	}
	if _, err := column.Upload(s, column.OfStrings([]string{"a"})); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("byte strings: %v", err)
	}
}

// If an upload runs out of memory, no memory stays in use.
func TestUploadMemory(t *testing.T) {
	c := column.Of([]int32{1, 2}).WithValid(column.OfBools([]bool{true, false}))
	for n := 0; ; n++ {
		dev := devicetest.OpenSim(t, nil)
		s := devicetest.NewStream(t, dev)
		before := devicetest.Live(dev).Bytes
		fired := devicetest.FailAfter(dev, n)
		on, err := column.Upload(s, c)
		if err == nil {
			err = errors.Join(s.Sync(context.Background()), on.Free())
		}
		if live := devicetest.Live(dev).Bytes; live != before || fired() != (err != nil) {
			t.Errorf("operation %d failed: %d bytes are live, %d were; %v", n, live, before, err)
		}
		if !fired() {
			return
		}
	}
}
