package graph

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestNewDeviceCSR checks that valid rows become a graph, and that invalid rows are refused.
func TestNewDeviceCSR(t *testing.T) {
	dev, other, ctx := devicetest.Open(t), devicetest.OpenCPU(t, 1), t.Context()
	s, far := devicetest.NewStream(t, dev), devicetest.NewStream(t, other)
	upload := func() (device.Slice[uint64], device.Slice[uint32]) {
		offsets, err := device.Upload(s, []uint64{0, 1, 1, 2})
		must(t, err)
		neighbors, err := device.Upload(s, []uint32{2, 0})
		must(t, err)
		return offsets, neighbors
	}
	offsets, neighbors := upload()
	for _, bad := range []struct {
		offsets   device.Slice[uint64]
		neighbors device.Slice[uint32]
		opts      *Options
	}{
		{device.Slice[uint64]{}, neighbors, nil},
		{offsets, devicetest.Upload(t, far, []uint32{2, 0}), nil},
		{offsets, neighbors, &Options{SelfLoops: true}},
	} {
		if d, err := NewDeviceCSR(bad.offsets, bad.neighbors, bad.opts); d != nil || !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%v, %v", d, err)
		}
	}
	d, err := NewDeviceCSR(offsets, neighbors, nil)
	must(t, err)
	if d.Vertices() != 3 || d.Edges() != 1 || !d.Sorted() || !d.Simple() || d.Directed() {
		t.Errorf("%d vertices, %d edges, sorted %v, simple %v, directed %v", d.Vertices(), d.Edges(), d.Sorted(), d.Simple(), d.Directed())
	}
	weights, err := device.Upload(s, []float32{.5, .5})
	must(t, err)
	w, err := NewDeviceWeighted(d, weights).Download(ctx, s)
	must(t, err)
	if want := []uint32{2, 0}; !slices.Equal(w.Targets(), want) || w.Weights(2)[0] != .5 {
		t.Errorf("%v with weights %v", w.Targets(), w.AllWeights())
	}
	must(t, errors.Join(d.Free(), weights.Free()))
	offsets, neighbors = upload()
	multi, err := NewDeviceCSR(offsets, neighbors, &Options{Directed: true, SelfLoops: true, Multi: true})
	must(t, err)
	if multi.Edges() != 2 || multi.Simple() || !multi.Directed() {
		t.Errorf("%d edges, simple %v, directed %v", multi.Edges(), multi.Simple(), multi.Directed())
	}
	defer func() {
		if recover() == nil {
			t.Error("weights of other arcs are taken")
		}
		must(t, errors.Join(s.Sync(ctx), multi.Free())) // the copy to multi is in progress
	}()
	NewDeviceWeighted(multi, device.Slice[float32]{})
}
