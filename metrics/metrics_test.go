package metrics

import (
	"encoding/json"
	"expvar"
	"testing"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/slab"
	"github.com/weftgo/weft/sorted"
)

// expvar shows the result of Structures as JSON. Closed structures do not appear.
func TestPublish(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	a, err := slab.New[uint64, uint64](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sorted.New[uint64, uint64](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]uint64, 10_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for _, put := range []func() error{
		func() error { _, err := a.Put(t.Context(), keys, keys); return err },
		func() error { _, err := b.Put(t.Context(), keys, keys); return err },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	Publish("test")
	Publish("test") // changes nothing
	read := func() (all map[string]Structure) {
		if err := json.Unmarshal([]byte(expvar.Get("test").String()), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := read()
	if s := all["slab"]; s.Open != 1 || s.Pairs != len(keys) || s.Bytes < 16*len(keys) || s.Rehashes == 0 || s.RehashTime <= 0 || s.RehashBytes == 0 {
		t.Errorf("slab: %+v", s)
	}
	if s := all["sorted"]; s.Open != 1 || s.Pairs != len(keys) {
		t.Errorf("sorted: %+v", s)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	all = read()
	if all["slab"].Open != 0 || all["slab"].Bytes != 0 || all["slab"].Pairs != 0 || all["sorted"].Open != 0 {
		t.Errorf("after Close: %+v", all)
	}
}
