//go:build linux

package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/pool"
)

// Each verb needs the operator's assertion again. Without it, the verb reports the durability that
// the file system guarantees.
func TestPoolPMem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	vouched := "--assert-pmem=persistent"
	stdout, stderr, status := runWeft(t, "", "pool", "create", path, "--key-size=16", "--value-size=24", "--capacity=100", "--size=16MiB", "--durability=pmem", vouched)
	if status != exitOK || stderr != "" {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	inPool(t, path, func(x *gphash.Index) { fillPool(t, x, 10) })
	for _, tt := range []struct {
		args   []string
		status int
		want   string // expected durability or message
	}{
		{nil, exitOK, "process"},
		{[]string{"--durability=none"}, exitOK, "process"},
		{[]string{"--durability=process"}, exitOK, "process"},
		{[]string{"--durability=pmem"}, exitUnknown, "weft: pool check " + path + ": not durable: not a character device"},
		{[]string{vouched}, exitOK, "pmem"},
		{[]string{vouched, "--durability=pmem", "--repair"}, exitOK, "pmem"},
	} {
		stdout, stderr, status := runWeft(t, "", append([]string{"pool", "check", path}, tt.args...)...)
		if status != tt.status || status == exitOK && !strings.Contains(stdout, "\ndurability "+tt.want+"\n10 keys in") || status != exitOK && !strings.HasPrefix(stderr, tt.want) {
			t.Errorf("check %q: exit status %d, prints %q and says %q", tt.args, status, stdout, stderr)
		}
	}
	var c poolCheck
	stdout, _, _ = runWeft(t, "", "pool", "check", "--json", vouched, path)
	if decode(t, stdout, &c); c.Durability != "pmem" || c.Keys != 10 {
		t.Errorf("check prints %s", stdout)
	}
	if stdout, stderr, status = runWeft(t, "", "pool", "dump", vouched, path); status != exitOK || strings.Count(stdout, "\n") != 10 {
		t.Errorf("dump: exit status %d, prints %q and says %q", status, stdout, stderr)
	}
	if _, stderr, status = runWeft(t, "", "pool", "dump", "--durability=pmem", path); status != exitFailed || !strings.Contains(stderr, "not durable") {
		t.Errorf("dump that nobody vouches for: exit status %d, says %q", status, stderr)
	}
}

// A check writes its stores back if possible, whether or not persistence is asserted.
func TestPoolCheckWritesBack(t *testing.T) {
	path := newPool(t, 1)
	host, err := cpu.Open(nil)
	must(t, err)
	defer host.Close()
	gpu, err := sim.Open(nil)
	must(t, err)
	defer gpu.Close()
	asserted := gphash.PMemConditions{Persistent: true, DDIOOff: true}
	for _, tt := range []struct {
		path string
		dev  device.Device
		o    gphash.OpenOptions
		want bool
	}{
		{path, host, gphash.OpenOptions{}, true},
		{path, host, gphash.OpenOptions{Repair: true, Durability: gphash.Process}, true},
		// Persistent memory is used as requested.
		{path, host, gphash.OpenOptions{Durability: gphash.PMem, AssertPMem: asserted}, false},
		{path, host, gphash.OpenOptions{ReadOnly: true}, false},
		{path, gpu, gphash.OpenOptions{}, false},
		{"/dev/null", host, gphash.OpenOptions{}, false},
		{path + "2", host, gphash.OpenOptions{}, false},
	} {
		o, added := writeBack(tt.path, tt.dev, tt.o)
		if pmem := o.Durability == gphash.PMem && o.AssertPMem.Persistent; added != tt.want || added && (!pmem || o.Repair != tt.o.Repair) || !added && o != tt.o {
			t.Errorf("%s, %+v: %+v, %v", tt.path, tt.o, o, added)
		}
	}
	x, _, err := openWrittenBack(t.Context(), path, host, gphash.OpenOptions{}, &pool.Info{Durability: pool.Process})
	must(t, err)
	if d := x.(*gphash.Index).Durability(); d != gphash.PMem {
		t.Errorf("a check has its pool opened as %v", d)
	}
	must(t, x.Close())
	if _, _, err := openWrittenBack(t.Context(), path, host, gphash.OpenOptions{Durability: gphash.Process}, &pool.Info{}); !errors.Is(err, gphash.ErrNotDurable) {
		t.Errorf("on a file system that grants nothing: %v", err)
	}
}
