package cuda

import (
	"testing"
)

// Free does not execute the work of other streams.
func TestFreeWaitsForNoWork(t *testing.T) {
	f := newFake()
	d := f.open(t)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := s.Fill(a.Ptr, 7, 200); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Free(b); err != nil {
		t.Fatal(err)
	}
	if f.clock != 0 {
		t.Errorf("%d operations have been done meanwhile", f.clock)
	}
	if len(f.memory) != 1 {
		t.Errorf("there are %d buffers", len(f.memory))
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Free(a); err != nil {
		t.Error(err)
	}
	if f.calls[symMemFree] != 0 {
		t.Error("cuMemFree was called")
	}
}

// Free calls cuMemFree if the driver has no memory pools.
func TestFreeWithoutPools(t *testing.T) {
	for _, sym := range []symbol{symMemFreeAsync, symStreamCreate} {
		f := newFake()
		d := f.open(t)
		b, err := d.Alloc(1000)
		if err != nil {
			t.Fatal(err)
		}
		f.fail = func(s symbol, _ int) Code {
			if s == sym {
				return notSupported
			}
			return success
		}
		if err := d.Free(b); (err != nil) != (sym == symStreamCreate) {
			t.Errorf("without %v: %v", sym, err)
		}
		if f.calls[symMemFree] != 1 {
			t.Errorf("without %v, cuMemFree was called %d times", sym, f.calls[symMemFree])
		}
	}
}
