package pm_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// Every store to persistent memory is written back completely, and a fence waits for it.
func TestPersistent(t *testing.T) {
	const words = 64
	for name, store := range map[string]func(m *pm.Memory){
		"Store":                 func(m *pm.Memory) { m.Store(9, 1) },
		"CompareAndSwap":        func(m *pm.Memory) { m.CompareAndSwap(9, 0, 1) },
		"Write":                 func(m *pm.Memory) { m.Write(7, []byte("0123456789abcdef")) },
		"Write of half a word":  func(m *pm.Memory) { m.Write(7, []byte("0123")) },
		"Write of many":         func(m *pm.Memory) { m.Write(3, make([]byte, 100)); m.Write(3, []byte("0123456789abc")) },
		"Clear":                 func(m *pm.Memory) { m.Clear(40, 64) },
		"Clear of the last one": func(m *pm.Memory) { m.Clear(63, 64) },
	} {
		mapped := make([]uint64, words)
		for i := 40; i < words; i++ {
			mapped[i] = 5
		}
		c := pmtest.NewCaches(device.Bytes(mapped))
		m := pm.NewPersistent(device.Bytes(mapped), c)
		store(m)
		if c.CheckDurable() == nil {
			t.Errorf("%s: durable before a fence", name)
		}
		m.Fence()
		if err := c.CheckDurable(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An operation that changes no word writes back no word.
func TestPersistentIdle(t *testing.T) {
	mapped := make([]byte, 64)
	c := pmtest.NewCaches(mapped)
	m := pm.NewPersistent(mapped, c)
	m.CompareAndSwap(3, 1, 2)
	m.Load(3)
	m.Read(0, make([]byte, 64))
	m.Write(0, nil)
	m.Clear(2, 2)
	if c.Written != 0 || c.Fences != 0 {
		t.Errorf("%d words written back, %d fences", c.Written, c.Fences)
	}
}

// The Persist of this machine does not change the memory.
func TestCPU(t *testing.T) {
	for _, caches := range []bool{false, true} {
		p, err := pm.HostPersist(caches)
		if err != nil {
			t.Logf("caches %t: %v", caches, err)
			continue
		}
		mapped := make([]uint64, 1000)
		m := pm.NewPersistent(device.Bytes(mapped), p)
		for at := range m.Words() {
			m.Store(at, at*at)
		}
		p.WriteBack(mapped)
		p.WriteBack(nil)
		m.Fence()
		for at, v := range mapped {
			if v != uint64(at*at) {
				t.Fatalf("caches %t: word %d is %d", caches, at, v)
			}
		}
	}
}
