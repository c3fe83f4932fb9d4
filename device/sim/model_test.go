package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// smallProgram is a few actions of a few threads on two locations.
type smallProgram struct {
	places []int      // position of each thread in a grid of blocks of two
	acts   [][]action // by thread
}

const smallLocations = 2

// makeSmall returns a random program that has a limited number of executions and writes every value
// once.
func makeSmall(rng *rand.Rand) smallProgram {
	for {
		p, reads, writes := makeProgram(rng)
		if reads <= 4 && writes <= 4 {
			return p
		}
	}
}

func makeProgram(rng *rand.Rand) (p smallProgram, reads, writes int) {
	p.places = [][]int{{0, 2}, {0, 1}, {0, 2, 4}, {0, 1, 2}}[rng.IntN(4)]
	for i, place := range p.places {
		var list []action
		for range 1 + rng.IntN(4) {
			a := action{thread: i, block: place / 2, loc: rng.IntN(smallLocations), scope: ScopeBlock}
			if rng.IntN(6) > 0 {
				a.scope = ScopeGPU + Scope(rng.IntN(2))
			}
			kind := rng.IntN(8)
			switch {
			case kind < 3:
				a.reads, a.order = true, []order{orderWeak, orderRelaxed, orderAcquire}[rng.IntN(3)]
			case kind < 6:
				a.order = []order{orderWeak, orderRelaxed, orderRelease}[rng.IntN(3)]
			case kind < 7:
				a.reads, a.order = true, []order{orderRelaxed, orderAcquire, orderRelease, orderAcqRel}[rng.IntN(4)]
			default:
				a.fence, a.loc, a.order = true, -1, []order{orderAcqRel, orderSC}[rng.IntN(2)]
			}
			if kind >= 3 && kind < 7 {
				writes++
				a.value = uint64(writes)
			}
			if a.reads {
				reads++
			}
			if a.order == orderWeak {
				a.scope = ScopeNone
			}
			list = append(list, a)
		}
		p.acts = append(p.acts, list)
	}
	return p, reads, writes
}

var orderNames = map[order]string{orderWeak: "weak", orderRelaxed: "relaxed", orderAcquire: "acquire", orderRelease: "release", orderAcqRel: "acq_rel", orderSC: "sc"}

func (a action) String() string {
	how := orderNames[a.order]
	if a.scope != ScopeNone {
		how += "." + a.scope.String()
	}
	switch {
	case a.fence:
		return "fence." + how
	case a.reads && a.value != 0:
		return fmt.Sprintf("atom.%s.global.exch.b64 R, [%%rd1+%d], %d", how, 8*a.loc, a.value)
	case a.reads:
		return fmt.Sprintf("ld.%s.global.u64 R, [%%rd1+%d]", how, 8*a.loc)
	}
	return fmt.Sprintf("st.%s.global.u64 [%%rd1+%d], %d", how, 8*a.loc, a.value)
}

func (p smallProgram) String() string {
	var s strings.Builder
	for i, list := range p.acts {
		fmt.Fprintf(&s, "thread %d of block %d: %v\n", i, p.places[i]/2, list)
	}
	return s.String()
}

// ptx returns a kernel that runs the program. Each thread outputs the values that it read.
func (p smallProgram) ptx() string {
	var s strings.Builder
	for i, list := range p.acts {
		fmt.Fprintf(&s, "setp.ne.u32 %%p1, %%r1, %d;\n@%%p1 bra NEXT%d;\n", p.places[i], i)
		for k, a := range list {
			fmt.Fprintf(&s, "%s;\n", strings.Replace(a.String(), "R", fmt.Sprintf("%%rd%d", 20+k), 1))
		}
		for k, a := range list {
			if a.reads {
				fmt.Fprintf(&s, "st.global.u64 [%%rd2+%d], %%rd%d;\n", 8*(4*i+k), 20+k)
			}
		}
		fmt.Fprintf(&s, "NEXT%d:\n", i)
	}
	return ptx(s.String())
}

// outcome returns the values that the reads returned, then the final contents of memory.
func (p smallProgram) outcome(t *testing.T, opts *Options) string {
	r := newRig(t, opts, p.ptx(), make([]uint64, smallLocations), 12)
	defer r.dev.Close()
	if err := r.launch(3, 2); err != nil {
		t.Fatal(err)
	}
	out := r.read(r.out)
	var got []uint64
	for i, list := range p.acts {
		for k, a := range list {
			if a.reads {
				got = append(got, out[4*i+k])
			}
		}
	}
	return fmt.Sprint(append(got, r.read(r.in)...))
}

// outcomes returns the outcomes that PTX allows, and the subset that can appear if stores take
// effect at once.
func (p smallProgram) outcomes() (allowed, inOrder map[string]bool) {
	x := execution{}
	for l := range smallLocations {
		x.acts = append(x.acts, action{thread: -1, block: -1, loc: l})
	}
	for _, list := range p.acts {
		x.acts = append(x.acts, list...)
	}
	allowed, inOrder = map[string]bool{}, map[string]bool{}
	x.from = make([]int, len(x.acts))
	x.orders(func() {
		if x.allowed() {
			o := x.outcome()
			allowed[o] = true
			if x.inOrder() {
				inOrder[o] = true
			}
		}
	})
	return allowed, inOrder
}

// outcome returns the outcome in the form of [smallProgram.outcome].
func (x *execution) outcome() string {
	var got, last [smallLocations + 16]uint64
	n := 0
	for i := range x.acts {
		if x.acts[i].reads {
			got[n] = x.acts[x.from[i]].value
			n++
		}
		if x.writes(i) && x.co[i] == 0 {
			last[x.acts[i].loc] = x.acts[i].value
		}
	}
	return fmt.Sprint(append(got[:n:n], last[:smallLocations]...))
}

// orders calls visit for all executions: every order of the writes to each location, every order of
// the fences, and every source of each read.
func (x *execution) orders(visit func()) {
	var groups [][]int
	for l := range smallLocations {
		groups = append(groups, x.where(func(i int) bool { return x.acts[i].loc == l && x.acts[i].thread >= 0 && x.writes(i) }))
	}
	groups = append(groups, x.where(func(i int) bool { return x.acts[i].fence && x.acts[i].order == orderSC }))
	permuteAll(groups, func() {
		x.co, x.sc = make(relation, len(x.acts)), make(relation, len(x.acts))
		for l := range smallLocations {
			chain(x.co, append([]int{l}, groups[l]...)) // the initial value is action l
		}
		chain(x.sc, groups[smallLocations])
		x.sources(0, visit)
	})
}

func (x *execution) where(f func(i int) bool) (list []int) {
	for i := range x.acts {
		if f(i) {
			list = append(list, i)
		}
	}
	return list
}

func chain(r relation, list []int) {
	for k, i := range list {
		for _, j := range list[k+1:] {
			r.add(i, j)
		}
	}
}

// sources calls visit for every choice of sources for the reads from i on.
func (x *execution) sources(i int, visit func()) {
	for ; i < len(x.acts) && !x.acts[i].reads; i++ {
	}
	if i == len(x.acts) {
		visit()
		return
	}
	for w := range x.acts {
		if w != i && !x.acts[w].fence && x.writes(w) && x.acts[w].loc == x.acts[i].loc {
			x.from[i] = w
			x.sources(i+1, visit)
		}
	}
}

// permuteAll calls visit for every order of every list.
func permuteAll(lists [][]int, visit func()) {
	if len(lists) == 0 {
		visit()
		return
	}
	var rec func(list []int, k int)
	rec = func(list []int, k int) {
		if k >= len(list) {
			permuteAll(lists[1:], visit)
			return
		}
		for i := k; i < len(list); i++ {
			list[k], list[i] = list[i], list[k]
			rec(list, k+1)
			list[k], list[i] = list[i], list[k]
		}
	}
	rec(lists[0], 0)
}

// The simulator shows only outcomes of small programs that PTX allows. It shows most of those that
// can appear if stores take effect at once.
func TestSmallPrograms(t *testing.T) {
	shown, possible := 0, 0
	for seed := range uint64(smallPrograms) {
		p := makeSmall(rand.New(rand.NewPCG(seed, 9)))
		allowed, inOrder := p.outcomes()
		seen := map[string]bool{}
		for run := range uint64(smallRuns) {
			o := p.outcome(t, &Options{Scheduler: Random, Seed: seed<<20 | run})
			if !allowed[o] {
				t.Fatalf("program %d: PTX does not allow %s:\n%v", seed, o, p)
			}
			seen[o] = true
		}
		for o := range inOrder {
			possible++
			if seen[o] {
				shown++
			}
		}
	}
	if t.Logf("%d of %d possible outcomes were seen", shown, possible); shown < possible*2/3 {
		t.Error("too few for so many runs")
	}
}

// With 4000 runs of each program, 281 of 282 outcomes appeared.
const smallPrograms, smallRuns = 60, 60
