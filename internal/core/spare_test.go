package core_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/core"
)

type kept struct{ buf device.Buffer }

func (k kept) Memory() device.Buffer { return k.buf }
func (k kept) Capacity() int         { return k.buf.Size }

func TestSpare(t *testing.T) {
	host, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	dev := devicetest.Checked(t, host)
	waits, busy := 0, error(nil)
	s := core.Spare[kept]{Dev: dev, MaxKept: 2, WaitIdle: func() error { waits++; return busy }}
	give := func(bytes int) {
		t.Helper()
		buf, err := s.Alloc(bytes)
		if err = errors.Join(err, s.Release(kept{buf})); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, bytes, all, waited int) {
		t.Helper()
		if k, a := s.Bytes(); k != bytes || a != all || waits != waited {
			t.Errorf("%s: %d bytes are kept, of %d, after %d waits; want %d, %d, %d", what, k, a, waits, bytes, all, waited)
		}
	}
	give(4096)
	give(1024)
	want("two are kept", 5120, 5120, 0)
	if s.Has(2048, 4095) || !s.Has(2048, 4096) {
		t.Error("Has does not keep to the bounds")
	}
	if x, ok := s.Acquire(1, 8192); !ok || x.buf.Size != 1024 {
		t.Errorf("Take found %v, not the smallest", x)
	} else if err := s.Free(x); err != nil {
		t.Error(err)
	}
	want("one has been dropped by who took it", 4096, 4096, 0)
	give(256)
	give(512)
	want("the oldest makes room, once nobody reads it", 768, 768, 1)
	give(128)
	want("and again", 640, 640, 2)
	if err := s.TrimTo(1); err != nil {
		t.Error(err)
	}
	want("the newest stays", 128, 128, 3)
	busy = errors.New("the device is lost")
	if err := s.Trim(); !errors.Is(err, busy) {
		t.Errorf("Trim: %v", err)
	}
	want("nor is it lost", 128, 128, 4)
	busy = nil
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	give(64)
	want("nothing is kept any more", 0, 0, 4)
}
