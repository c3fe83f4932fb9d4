package epoch

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// TestBegin checks that the memory has the initial state that kernels expect, and grows in place.
func TestBegin(t *testing.T) {
	simulated, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { simulated.Close() })
	dev := devicetest.Checked(t, simulated)
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := New(s, Config{Nodes: 10, MaxNodes: 1000, Slots: 3})
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint32, controlSize/4+2*3)
	if err := s.CopyOut(t.Context(), device.Bytes(words), r.words.Ptr); err != nil {
		t.Fatal(err)
	}
	if words[0] != firstEpoch {
		t.Errorf("epoch %d", words[0])
	}
	for i, w := range words[bagsOffset/4:] {
		if want := noNode; i < bagStacks && w != want || i >= bagStacks && w != 0 {
			t.Fatalf("word %d behind the counters is %#x", i, w)
		}
	}
	links := r.Ref().Links
	if err := r.Grow(1000); err != nil {
		t.Fatal(err)
	}
	if r.links.Mapped() < 4*1000 || r.Ref().Links != links {
		t.Errorf("%d bytes of links, at %#x, before at %#x", r.links.Mapped(), r.Ref().Links, links)
	}
	if err := r.Grow(1 << 20); err == nil {
		t.Error("grown beyond MaxNodes")
	}
	if c, err := r.ReadCounters(t.Context(), s); err != nil || c != (Counters{Epoch: firstEpoch}) || c.Pending() != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	// The default is the maximum number of running blocks.
	if r, err = New(s, Config{Nodes: 1}); err != nil || r.cfg.Slots != 132*blocksPerUnit {
		t.Fatalf("%v", err)
	}
	if err := errors.Join(s.Sync(t.Context()), r.Close()); err != nil {
		t.Error(err)
	}
}
