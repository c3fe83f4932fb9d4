package sim

import (
	"errors"
	"strings"
	"testing"
)

// Two unordered accesses are a data race if at least one is a store, and at least one is weak or
// has too small a scope. Ordered accesses are no data race.
func TestRaces(t *testing.T) {
	tests := []struct {
		name    string
		threads []string // PTX as in litmus tests
		block   bool
		race    bool
	}{
		{"store and load", []string{"st.global.u64 [x], 1;", "ld.global.u64 %rd10, [x];"}, false, true},
		{"store and store", []string{"st.global.u64 [x], 1;", "st.global.u64 [x], 2;"}, false, true},
		{"load, then store", []string{
			"ld.global.u64 %rd10, [x]; st.relaxed.gpu.global.u64 [y], 1;",
			"SPIN: ld.relaxed.gpu.global.u64 %rd10, [y]; setp.eq.u64 %p2, %rd10, 0; @%p2 bra SPIN; st.global.u64 [x], 1;",
		}, false, true},
		{"load, release, then store", []string{
			"ld.global.u64 %rd10, [x]; st.release.gpu.global.u64 [y], 1;",
			"SPIN: ld.acquire.gpu.global.u64 %rd10, [y]; setp.eq.u64 %p2, %rd10, 0; @%p2 bra SPIN; st.global.u64 [x], 1;",
		}, false, false},
		{"two loads", []string{"ld.global.u64 %rd10, [x];", "ld.global.u64 %rd10, [x];"}, false, false},
		{"relaxed store, weak load", []string{"st.relaxed.gpu.global.u64 [x], 1;", "ld.global.u64 %rd10, [x];"}, false, true},
		{"weak store, atomic", []string{"st.global.u64 [x], 1;", "atom.global.add.u64 %rd10, [x], 1;"}, false, true},
		{"relaxed", []string{"st.relaxed.gpu.global.u64 [x], 1;", "ld.relaxed.sys.global.u64 %rd10, [x];"}, false, false},
		{"atomics of different blocks", []string{"atom.cta.global.add.u64 %rd10, [x], 1;", "atom.cta.global.add.u64 %rd10, [x], 1;"}, false, true},
		{"atomics of one block", []string{"atom.cta.global.add.u64 %rd10, [x], 1;", "atom.cta.global.add.u64 %rd10, [x], 1;"}, true, false},
		{"bytes side by side", []string{"st.global.u8 [x], 1;", "st.global.u8 [x+1], 1;"}, false, false},
		{"a byte of a word", []string{"st.global.u8 [x+3], 1;", "st.global.u64 [x], 1;"}, false, true},
		{"published", []string{
			"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
			"ld.acquire.gpu.global.u64 %rd10, [y]; setp.eq.u64 %p2, %rd10, 0; @%p2 bra OUT; ld.global.u64 %rd11, [x]; OUT:",
		}, false, false},
		{"published too weakly", []string{
			"st.global.u64 [x], 1; st.relaxed.gpu.global.u64 [y], 1;",
			"ld.acquire.gpu.global.u64 %rd10, [y]; setp.eq.u64 %p2, %rd10, 0; @%p2 bra OUT; ld.global.u64 %rd11, [x]; OUT:",
		}, false, true},
		{"written again after it was published", []string{
			"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1; st.global.u64 [x], 2;",
			"ld.acquire.gpu.global.u64 %rd10, [y]; setp.eq.u64 %p2, %rd10, 0; @%p2 bra OUT; ld.global.u64 %rd11, [x]; OUT:",
		}, false, true},
		{"on both sides of a barrier", []string{"setp.eq.u32 %p2, %r2, 0; @%p2 st.global.u64 [x], 1; bar.sync 0;", "bar.sync 0; ld.global.u64 %rd10, [x];"}, true, false},
		{"on one side of a barrier", []string{"setp.eq.u32 %p2, %r2, 0; @%p2 st.global.u64 [x], 1; bar.sync 0;", "ld.global.u64 %rd10, [x]; bar.sync 0;"}, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, s := range []Scheduler{Random, PCT} {
				seen := false
				for seed := range uint64(100) {
					l := litmus{threads: test.threads, block: test.block}
					_, err := l.launch(t, &Options{Scheduler: s, Seed: seed, Races: true})
					if err == nil {
						continue
					}
					seen = true
					if !test.race || !strings.Contains(err.Error(), "data race") {
						t.Fatalf("%s, seed %d: %v", s, seed, err)
					}
				}
				if test.race && !seen {
					t.Errorf("%s: no race was found", s)
				}
			}
		})
	}
}

// These kernels have a planted race, a planted access out of bounds and a wrong __syncwarp mask.
// The fault names kernel, line and lane, and for a race also the other access.
func TestPlantedFaults(t *testing.T) {
	const firstLine = 22 // first line of the body in ptx
	tests := []struct {
		name string
		body string
		opts Options
		line int // line in body
		lane int
		want string
	}{
		{"race", `
	setp.gt.u32 %p1, %r2, 1;
	@%p1 bra END;
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra READ;
	st.global.u64 [%rd1], 5;
	bra END;
READ:
	ld.global.u64 %rd3, [%rd1];
END:`, Options{Scheduler: Random, Races: true}, 8, 0,
			"data race: byte 0 of a block of 16 bytes is accessed by line 26 (st.global.u64 [%rd1], 5), block 0,0,0, warp 0, lane 1,"},
		{"out of bounds", `
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	setp.ne.u32 %p1, %r2, 17;
	@%p1 bra END;
	st.global.u64 [%rd5+8], %rd4;
END:`, Options{}, 5, 17, "address 0x1b5740000190: byte 144 of a block of 136 bytes"},
		{"wrong mask", `
	setp.lt.u32 %p1, %r2, 16;
	@%p1 bra LOW;
	bar.warp.sync 0xffff0000;
	bra END;
LOW:
	bar.warp.sync 0xfffe;
END:`, Options{}, 6, 0, "membermask 0x0000fffe lacks the executing lane"},
		{"mask that can't be met", `
	setp.lt.u32 %p1, %r2, 16;
	@%p1 bra LOW;
	bar.warp.sync 0xffff8000;
	bra END;
LOW:
	bar.warp.sync 0x1ffff;
END:`, Options{}, 6, 0, "deadlock: membermask 0x0001ffff waits for lanes 0x00010000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var err error
			for seed := range uint64(100) { // a race appears under some schedules only
				test.opts.Seed = seed
				if err = newRig(t, &test.opts, ptx(test.body), []uint64{1, 2}, 17).launch(1, 32); err != nil && strings.Contains(err.Error(), test.want) {
					break
				}
			}
			var f *Fault
			if !errors.As(err, &f) {
				t.Fatalf("error %v, want a Fault", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not say %q", err, test.want)
			}
			if f.Kernel != "k" || f.Line != firstLine+test.line-1 || f.Lane != test.lane || f.Warp != 0 || f.Block != [3]int{} {
				t.Errorf("place %+v", f)
			}
			t.Log(err)
		})
	}
}

// Threads have unique numbers in blocks of any size. A barrier of one block therefore shows no
// stores of threads in the next block.
func TestBarrierOfOneBlockOnly(t *testing.T) {
	stale := false
	for seed := range uint64(200) {
		r := newRig(t, &Options{Scheduler: Random, Seed: seed}, ptx(`
	setp.eq.u32 %p1, %r10, 0;
	@%p1 bra FIRST;
	setp.ne.u32 %p1, %r12, 0;
	@%p1 bra END;
	st.relaxed.gpu.global.u64 [%rd1], 1;
	st.relaxed.gpu.global.u64 [%rd1+8], 1;
	bra END;
FIRST:
	ld.relaxed.gpu.global.u64 %rd3, [%rd1+8];
	bar.sync 0;
	ld.relaxed.gpu.global.u64 %rd4, [%rd1];
	setp.ne.u32 %p1, %r12, 0;
	@%p1 bra END;
	st.global.u64 [%rd2], %rd3;
	st.global.u64 [%rd2+8], %rd4;
END:`), []uint64{0, 0}, 2)
		if v := r.run(2, 40); v[0] == 1 && v[1] == 0 {
			stale = true
		}
	}
	if !stale {
		t.Error("after a barrier, a thread sees all stores of another block")
	}
}
