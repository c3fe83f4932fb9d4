package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// litmus is a litmus test: threads that access the words x (0) and y (1), and the results that
// their loads may return together. Each thread is a separate block by default.
type litmus struct {
	name    string
	threads []string // PTX; [x] and [y] are addresses, results go to %rd10, %rd11
	block   bool     // all threads in one block
	pairs   bool     // threads 0 and 1 in one block, 2 and 3 in another
	init    [3]uint64
	weird   string // results by thread, "a b|c d", that the test looks for
	allowed bool   // by PTX's memory model, and therefore must be seen
	missing bool   // allowed, but the simulator does not show it
}

var litmusTests = []litmus{
	{name: "MP relaxed", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "MP release only", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "MP release acquire", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "MP release acquire at block scope across blocks", threads: []string{
		"st.global.u64 [x], 1; st.release.cta.global.u64 [y], 1;",
		"ld.acquire.cta.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "MP release acquire at block scope within a block", block: true, threads: []string{
		"st.global.u64 [x], 1; st.release.cta.global.u64 [y], 1;",
		"ld.acquire.cta.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "MP fences", threads: []string{
		"st.global.u64 [x], 1; fence.acq_rel.gpu; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; fence.acq_rel.gpu; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "MP fence around a weak flag", threads: []string{
		"st.global.u64 [x], 1; fence.acq_rel.gpu; st.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; fence.acq_rel.gpu; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "MP membar.gl", threads: []string{
		"st.global.u64 [x], 1; membar.gl; st.volatile.global.u64 [y], 1;",
		"ld.volatile.global.u64 %rd10, [y]; membar.gl; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "MP by cas", threads: []string{
		"st.global.u64 [x], 1; atom.release.gpu.global.cas.b64 %rd3, [y], 0, 1;",
		"atom.acquire.gpu.global.cas.b64 %rd10, [y], 7, 7; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "MP through another's exchange", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|2 0"},
	{name: "release sequence of one thread", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1; st.relaxed.gpu.global.u64 [y], 2;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|2 0"},
	{name: "SB", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0", allowed: true},
	{name: "SB with acq_rel fences", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; fence.acq_rel.gpu; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; fence.acq_rel.gpu; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0", allowed: true},
	{name: "SB with sc fences", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0"},
	{name: "SB with sc fences of different blocks", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; fence.sc.cta; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; fence.sc.cta; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0", allowed: true},
	{name: "SB with sc fences of one block", block: true, threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; fence.sc.cta; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0"},
	{name: "SB with one sc fence of a block too small", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; fence.sc.cta; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0", allowed: true},
	{name: "SB by atomics", threads: []string{
		"atom.relaxed.gpu.global.exch.b64 %rd3, [x], 1; ld.relaxed.gpu.global.u64 %rd10, [y];",
		"atom.relaxed.gpu.global.exch.b64 %rd3, [y], 1; ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0", allowed: true},
	{name: "IRIW with sc fences", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd11, [y];",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; fence.sc.gpu; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|0 0|1 0|1 0"},
	{name: "MP into an exchange", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; st.relaxed.gpu.global.u64 [y], 1;",
		"atom.relaxed.gpu.global.exch.b64 %rd10, [y], 2; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "MP release into an exchange", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"atom.acquire.gpu.global.exch.b64 %rd10, [y], 2; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "release sequence broken by a store", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; st.relaxed.gpu.global.u64 [y], 2;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|2 0", allowed: true},
	{name: "a store after another's atomic does not pass on what that passed on", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [y], 1; st.relaxed.gpu.global.u64 [y], 7;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|7 0", allowed: true},
	{name: "release sequence of one thread across another's store", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1; ld.relaxed.gpu.global.u64 %rd10, [y]; st.relaxed.gpu.global.u64 [y], 2;",
		"st.relaxed.gpu.global.u64 [y], 5;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "5 0|0 0|2 0"},
	{name: "an atomic of a block passes on nothing from another", pairs: true, threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"",
		"atom.relaxed.cta.global.add.u64 %rd10, [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|0 0|1 0|2 0", allowed: true},
	{name: "a release of a block reaches no other through an atomic", pairs: true, threads: []string{
		"st.global.u64 [x], 1; fence.acq_rel.cta; st.relaxed.gpu.global.u64 [y], 1;",
		"",
		"atom.relaxed.gpu.global.add.u64 %rd10, [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|0 0|1 0|2 0", allowed: true},
	{name: "a release of a block reaches it through another's atomic", pairs: true, threads: []string{
		"st.global.u64 [x], 1; fence.acq_rel.cta; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
		"atom.relaxed.gpu.global.add.u64 %rd10, [y], 1;",
		"",
	}, weird: "0 0|2 0|1 0|0 0"},
	{name: "causality through scopes of blocks", pairs: true, threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"",
		"ld.acquire.gpu.global.u64 %rd10, [y]; st.release.cta.global.u64 [y], 2;",
		"ld.acquire.cta.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|0 0|1 0|2 0"},
	{name: "an acquiring fence of too small a scope", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; fence.acq_rel.cta; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "an acquiring fence takes over what an earlier one could not", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; fence.acq_rel.cta; fence.acq_rel.gpu; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "an acquiring load takes over what an earlier one found in the same place", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; st.relaxed.gpu.global.u64 [y], 5;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; ld.acquire.gpu.global.u64 %rd3, [y]; mad.lo.u64 %rd10, %rd10, 10, %rd3; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|15 0"},
	{name: "an acquiring load takes over nothing found in another place", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; ld.acquire.gpu.global.u64 %rd3, [z]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "a failed cas acquires", threads: []string{
		"st.global.u64 [x], 1; st.release.gpu.global.u64 [y], 1;",
		"atom.acq_rel.gpu.global.cas.b64 %rd10, [y], 5, 6; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "atomics lose no update", threads: []string{
		"atom.relaxed.gpu.global.add.u64 %rd10, [x], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [x], 1;",
	}, weird: "0 0|0 0"},
	{name: "atomics of different blocks' scopes lose updates", threads: []string{
		"atom.relaxed.cta.global.add.u64 %rd10, [x], 1;",
		"atom.relaxed.cta.global.add.u64 %rd10, [x], 1;",
	}, weird: "0 0|0 0", allowed: true},
	{name: "atomics of a block lose no update", block: true, threads: []string{
		"atom.relaxed.cta.global.add.u64 %rd10, [x], 1;",
		"atom.relaxed.cta.global.add.u64 %rd10, [x], 1;",
	}, weird: "0 0|0 0"},
	{name: "WRC of a weak store", threads: []string{
		"st.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; st.release.gpu.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|1 0", allowed: true},
	{name: "WRC", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; st.release.gpu.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|1 0"},
	{name: "release does not cover what was not read", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; st.release.gpu.global.u64 [y], 2;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|2 0", allowed: true},
	{name: "IRIW", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"st.relaxed.gpu.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [x]; ld.acquire.gpu.global.u64 %rd11, [y];",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.acquire.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|0 0|1 0|1 0", allowed: true},
	{name: "CoRR relaxed", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "CoRR of a weak store", threads: []string{
		"st.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "CoRR through an atomic", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [x], 0; ld.relaxed.gpu.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "CoWR", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1; ld.relaxed.gpu.global.u64 %rd10, [x]; ld.relaxed.gpu.global.u64 %rd11, [x];",
		"st.relaxed.gpu.global.u64 [x], 2;",
	}, weird: "2 1|0 0"},
	{name: "CoRR weak", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 1;",
		"ld.global.u64 %rd10, [x]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "own stores", threads: []string{
		"st.global.u64 [x], 1; ld.global.u64 %rd10, [x];",
		"st.relaxed.gpu.global.u64 [y], 1;",
	}, weird: "0 0|0 0"},
	{name: "LB is not modelled", threads: []string{
		"ld.relaxed.gpu.global.u64 %rd10, [x]; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [y]; st.relaxed.gpu.global.u64 [x], 1;",
	}, weird: "1 0|1 0", missing: true},
	{name: "halves of one word", threads: []string{
		"st.relaxed.gpu.global.u64 [x], 0x100000001;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; and.b64 %rd10, %rd10, 1; ld.relaxed.gpu.global.u32 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "128 bits are one access", threads: []string{
		"mov.b128 %q1, {1, 1}; st.relaxed.gpu.global.b128 [x], %q1;",
		"ld.relaxed.gpu.global.b128 %q1, [x]; mov.b128 {%rd10, %rd11}, %q1;",
	}, weird: "0 0|1 0"},
	{name: "a vector is several accesses", threads: []string{
		"st.global.v2.u64 [x], {1, 1};",
		"ld.global.v2.u64 {%rd10, %rd11}, [x];",
	}, weird: "0 0|1 0", allowed: true},
	{name: "barrier", block: true, threads: []string{
		"st.global.u64 [x], 1; bar.sync 0;",
		"bar.sync 0; mov.u64 %rd10, 1; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
}

// Every behaviour that PTX allows and the simulator models appears under some seeds. Forbidden ones
// never do.
func TestLitmus(t *testing.T) {
	for _, test := range slices.Concat(litmusTests, systemTests) {
		t.Run(test.name, func(t *testing.T) {
			for _, s := range []Scheduler{Random, PCT} {
				seen := false
				for seed := uint64(0); seed < 400 && !seen; seed++ {
					got := test.run(t, &Options{Scheduler: s, Seed: seed, Depth: 3})
					if got == test.weird {
						seen = true
						if !test.allowed {
							t.Fatalf("%s, seed %d: result %q is forbidden", s, seed, got)
						}
					}
				}
				if test.allowed && !seen {
					t.Errorf("%s: result %q was never seen", s, test.weird)
				}
			}
		})
	}
}

// In sequential memory no weak behaviour appears.
func TestLitmusSequential(t *testing.T) {
	for _, test := range slices.Concat(litmusTests, systemTests) {
		if !test.allowed || test.name == "a vector is several accesses" {
			continue
		}
		for seed := range uint64(100) {
			got := test.run(t, &Options{Scheduler: Random, Seed: seed, Sequential: true})
			if got == test.weird {
				t.Fatalf("%s: seed %d: result %q in sequentially consistent memory", test.name, seed, got)
			}
		}
	}
}

func (l *litmus) run(t *testing.T, opts *Options) string {
	v, err := l.launch(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return outcomeOf(v)
}

// outcomeOf formats the results of threads, two words each.
func outcomeOf(v []uint64) string {
	var parts []string
	for i := 0; i < len(v); i += 2 {
		parts = append(parts, fmt.Sprintf("%d %d", v[i], v[i+1]))
	}
	return strings.Join(parts, "|")
}

var addresses = strings.NewReplacer("[x]", "[%rd1]", "[x+", "[%rd1+", "[y]", "[%rd1+8]", "[z]", "[%rd1+16]")

// place returns the number of blocks and of threads in each.
func (l *litmus) place() (blocks, threads int) {
	switch n := len(l.threads); {
	case l.block:
		return 1, n
	case l.pairs:
		return n / 2, 2
	default:
		return n, 1
	}
}

// launch runs the threads and returns their results in %rd10 and %rd11.
func (l *litmus) launch(t *testing.T, opts *Options) ([]uint64, error) {
	var body strings.Builder
	id := "%r1"
	grid, block := l.place()
	if l.block {
		// One warp per thread, so that warps may meet in a barrier.
		id, block = "%r13", 32*block
		body.WriteString("shr.u32 %r13, %r12, 5;\n")
	}
	body.WriteString("mov.u64 %rd10, 0;\nmov.u64 %rd11, 0;\n")
	for i, code := range l.threads {
		code = addresses.Replace(code)
		fmt.Fprintf(&body, "setp.ne.u32 %%p1, %s, %d;\n@%%p1 bra NEXT%d;\n%s\nNEXT%d:\n", id, i, i, code, i)
	}
	if l.block {
		body.WriteString("setp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\n")
	}
	fmt.Fprintf(&body, "mul.wide.u32 %%rd4, %s, 16;\nadd.u64 %%rd5, %%rd2, %%rd4;\nst.global.u64 [%%rd5], %%rd10;\nst.global.u64 [%%rd5+8], %%rd11;\nEND:\n", id)
	r := newRig(t, opts, ptx(body.String()), l.init[:], 2*len(l.threads))
	if err := r.launch(grid, block); err != nil {
		return nil, err
	}
	return r.read(r.out), nil
}
