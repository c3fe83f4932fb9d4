package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
)

// recorder is a domain that records its calls, and ends the launch at one of them.
type recorder struct {
	holds   func(addr device.Ptr) bool
	crashAt int // number of the call, -1 for none
	calls   []string
	stores  []Thread
}

var errPower = errors.New("power failed")

func (d *recorder) Holds(addr device.Ptr) bool { return d.holds == nil || d.holds(addr) }

func (d *recorder) call(format string, args ...any) error {
	if len(d.calls) == d.crashAt {
		return errPower
	}
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
	return nil
}

func (d *recorder) Store(t Thread, _ device.Ptr, data []byte) error {
	d.stores = append(d.stores, t)
	return d.call("store %x", data)
}

func (d *recorder) Release(_ Thread, scope Scope, before Before) error {
	return d.call("release %v %v", scope, d.seen(before))
}

func (d *recorder) Fence(_ Thread, scope Scope, before Before) error {
	return d.call("fence %v %v", scope, d.seen(before))
}

func (d *recorder) seen(before Before) (list []int) {
	for i := range len(d.stores) + 1 {
		if before(i) {
			list = append(list, i)
		}
	}
	return list
}

// A domain receives stores to the memory that it holds, and the events that order them, in order.
// An error of the domain ends the launch.
func TestDomain(t *testing.T) {
	const body = `
	st.global.u32 [%rd1], 7;
	fence.acq_rel.sys;
	st.release.gpu.global.u32 [%rd1+4], 8;
	st.global.u64 [%rd2], 1;
	membar.gl;
	atom.acq_rel.sys.global.exch.b64 %rd3, [%rd1+8], 9;
	st.shared.u32 [sh], 1;
	atom.release.sys.global.cas.b64 %rd3, [%rd1+8], 1, 2;
	red.release.sys.global.add.u64 [%rd2], 1;
	st.global.v2.u64 [%rd1+16], {5, 6};
	fence.sc.cta;`
	want := []string{
		"store 07000000", "fence sys [0]", "release gpu [0]", "store 08000000", "fence gpu [0 1]",
		"release sys [0 1]", "store 0900000000000000", "store 0500000000000000", "store 0600000000000000", "fence cta [0 1 2 3 4]",
	}
	for _, opts := range []Options{{}, {Scheduler: Random}, {Scheduler: PCT, Sequential: true}} {
		for crash := -1; crash < len(want); crash++ {
			d := &recorder{crashAt: crash}
			opts.Domain = d
			r := newRig(t, &opts, ptx(body), make([]uint64, 4), 1)
			d.holds = func(addr device.Ptr) bool { return addr >= r.in.Ptr() && addr < r.in.Ptr()+32 }
			err := r.launch(1, 1)
			expect := want
			if crash >= 0 {
				expect = want[:crash]
			}
			if !slices.Equal(d.calls, expect) {
				t.Errorf("%+v, crash at call %d: heard %q", opts, crash, d.calls)
			}
			if crash >= 0 != (errors.Is(err, errPower) && errors.Is(err, device.ErrLost)) || crash < 0 && err != nil {
				t.Errorf("crash at call %d: error %v", crash, err)
			}
		}
	}
}

// If a thread has seen stores of another thread, and the accesses guarantee an order, these stores
// are before the thread's fences and releases. This holds in sequential and in weak memory.
func TestDomainHearsOfWhatThreadsSaw(t *testing.T) {
	// Word x survives. y and z are flags in memory that does not survive.
	wait := func(order, word string) string {
		return fmt.Sprintf("L%[2]s: ld.%[1]s.global.u64 %%rd10, [%[2]s]; setp.eq.u64 %%p2, %%rd10, 0; @%%p2 bra L%[2]s;\n", order, word)
	}
	const release = "st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;"
	const flag = "st.relaxed.gpu.global.u64 [y], 1;"
	for _, test := range []struct {
		name, first, second string
		fence, release      bool // whether the other thread's store is before it
	}{
		{"release, acquire", release, wait("acquire.gpu", "y"), true, true},
		{"release, relaxed", release, wait("relaxed.gpu", "y"), true, false},
		{"release, relaxed and a fence", release, wait("relaxed.gpu", "y") + "fence.acq_rel.gpu;", true, true},
		{"relaxed, acquire", "st.global.u64 [x], 1;" + flag, wait("acquire.gpu", "y"), false, false},
		{"release of a block, acquire", "st.global.u64 [x], 1; st.release.cta.global.u64 [y], 1;", wait("acquire.gpu", "y"), false, false},
		{"a store that was read", "st.relaxed.sys.global.u64 [x], 1;", wait("relaxed.gpu", "x"), true, true},
		{"a weak store that was read", "st.global.u64 [x], 1;", wait("relaxed.gpu", "x"), false, false},
		{"a store after the release", "st.release.gpu.global.u64 [y], 1; st.global.u64 [x], 1; st.relaxed.gpu.global.u64 [z], 1;",
			wait("acquire.gpu", "y") + wait("relaxed.gpu", "z"), false, false},
	} {
		for what, end := range map[string]string{"fence gpu": "fence.acq_rel.gpu;", "release gpu": "st.release.gpu.global.u64 [x+24], 2;"} {
			body := addresses.Replace("setp.ne.u32 %p1, %r10, 0; @%p1 bra SECOND;\n" + test.first + "bra END;\nSECOND:\n" + test.second + end + "\nEND:\n")
			for _, opts := range []Options{{}, {Scheduler: Random}, {Scheduler: PCT}, {Scheduler: Random, Sequential: true}} {
				for opts.Seed = range 8 {
					d := &recorder{crashAt: -1}
					opts.Domain = d
					r := newRig(t, &opts, ptx(body), make([]uint64, 4), 1)
					d.holds = func(addr device.Ptr) bool { return addr == r.in.Ptr() || addr == r.in.Ptr()+24 }
					if err := r.launch(2, 1); err != nil {
						t.Fatal(err)
					}
					want := what + " []"
					if what == "fence gpu" && test.fence || what != "fence gpu" && test.release {
						want = what + " [0]"
					}
					// The store of the release is the next call.
					if last := d.calls[len(d.calls)-1]; last != want && d.calls[len(d.calls)-2] != want {
						t.Errorf("%s, %s, %s (sequential %t), seed %d: heard %q, want %q", test.name, what, opts.Scheduler, opts.Sequential, opts.Seed, d.calls, want)
					}
				}
			}
		}
	}
}

// Stores of an earlier launch are before every fence of a later one.
func TestDomainAcrossLaunches(t *testing.T) {
	d := &recorder{crashAt: -1}
	r := newRig(t, &Options{Domain: d, Scheduler: Random}, ptx("fence.acq_rel.sys;\nst.global.u64 [%rd2], 1;"), []uint64{0}, 1)
	r.run(1, 1)
	r.run(1, 1)
	if want := []string{"fence sys []", "store 0100000000000000", "fence sys [0]", "store 0100000000000000"}; !slices.Equal(d.calls, want) {
		t.Errorf("heard %q", d.calls)
	}
	if d.stores[0].Launch != 0 || d.stores[1].Launch != 1 {
		t.Errorf("stores of %+v", d.stores)
	}
}
