//go:build linux

package gphash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// twins stores second copies of keys in other candidate slots. If shared is true, a copy has the
// same value, as after a crash during a move. Otherwise it has an unused value.
func twins(t *testing.T, content []byte, keys model, shared bool) (n uint64) {
	t.Helper()
	p, err := pool.OpenMemory(pm.New(content, nil))
	must(t, err)
	tb, err := tableOf(p)
	must(t, err)
	v := tb.values
	nobodys := v.first + uint64(len(v.space.owner)/2)*v.unit + v.offset
	for key := range keys {
		it := tb.item([]byte(key))
		_, c, ok := tb.find(&it)
		if !ok {
			t.Fatalf("key %x is not there", key)
		}
		tb.eachBucket(it.hash, func(bucket uint64, _ bool) bool {
			free, to, was := tb.freeSlots(bucket)
			if free == 0 {
				return true
			}
			block := c.block()
			if !shared {
				block = nobodys + n*v.words
			}
			tb.publish(to, was, &it, block)
			n++
			return n%3 == 0 // several of them have more than one copy
		})
	}
	markUnclean(t, pm.New(content, nil))
	return n
}

// If a key is in several slots with one value, as during a move, the slot that a search finds first
// remains. It may be in a drained level. With different values this is damage. A GPU finds both
// like the host.
func TestTwinsOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev, host := devicetest.OpenSim(t, &sim.Options{Arch: 90}), openCPU(t)
	for _, o := range []Options{{KeySize: 8, ValueSize: 8}, {KeySize: 24, ValueSize: 20, Slots: 4, Hashes: 3}, {}} {
		path, want := filepath.Join(memoryDir(t), "pool"), model{}
		if o.KeySize == 0 {
			path, want = halfMoved(t)
		} else {
			o.Size, o.Capacity = smallPool, 100
			x, err := Create(path, host, o)
			must(t, err)
			for i := range 60 {
				key := denseKey(o.KeySize, i)
				want[string(key)] = string(valueOf(o.ValueSize, key, 1))
				_, err = x.Put(ctx, key, []byte(want[string(key)]))
				must(t, err)
			}
			must(t, x.Close())
		}
		for i, open := range []OpenOptions{{}, {Mirror: true}, {Cache: .4}} {
			for _, shared := range []bool{true, false} {
				t.Run(fmt.Sprint(o.KeySize, i, shared), func(t *testing.T) {
					content, err := os.ReadFile(path)
					must(t, err)
					planted := twins(t, content, want, shared)
					if planted < 10 {
						t.Fatalf("only %d twins", planted)
					}
					var reports [2]Report
					for i, dev := range []device.Device{host, dev} {
						reports[i] = openTwins(t, dev, content, want, open)
					}
					if fmt.Sprint(reports[0]) != fmt.Sprint(reports[1]) || (reports[1].Moved >= planted) != shared {
						t.Errorf("the host reports %+v, a GPU %+v; %d were planted", reports[0], reports[1], planted)
					}
				})
			}
		}
	}
}

// openTwins opens a pool with the given contents, and compares its pairs.
func openTwins(t *testing.T, dev device.Device, content []byte, want model, o OpenOptions) Report {
	t.Helper()
	path := filepath.Join(memoryDir(t), "pool")
	must(t, os.WriteFile(path, content, 0o600))
	x, report, err := Open(ctx, path, dev, o)
	if damaged := errors.Is(err, weft.ErrCorrupt); damaged != (report.Damaged > 0) || err != nil && !damaged {
		t.Fatalf("%+v: %v", report, err)
	}
	if err == nil {
		must(t, x.Check(ctx))
		want.equal(t, x)
		must(t, x.Close())
	}
	report.Times, report.Damage = Times{}, nil
	return *report
}

// If memory for a mirror is lacking and the options request none, a GPU inspects the slots in the
// pool, with the same result.
func TestInspectionWithoutMirror(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	path, want := halfMoved(t)
	content, err := os.ReadFile(path)
	must(t, err)
	planted := twins(t, content, want, true)
	dev, nWithout := devicetest.OpenSim(t, &sim.Options{Arch: 80}), 0
	for n, fired := 0, true; fired; n++ {
		must(t, os.WriteFile(path, content, 0o600))
		hit := devicetest.FailAfter(dev, n)
		x, report, err := Open(ctx, path, dev, OpenOptions{})
		devicetest.ClearFailures(dev)
		if fired = hit(); err != nil {
			if !fired || !errors.Is(err, device.ErrMemory) {
				t.Errorf("failure %d: %v", n, err)
			}
			continue
		}
		if fired {
			nWithout++
		}
		if report.Moved != planted+1 || report.Keys != uint64(len(want)) {
			t.Errorf("failure %d: %+v, with %d twins", n, report, planted)
		}
		must(t, x.Check(ctx))
		want.equal(t, x)
		must(t, x.Close())
	}
	if nWithout == 0 {
		t.Error("no failure left a pool without its mirror")
	}
}
