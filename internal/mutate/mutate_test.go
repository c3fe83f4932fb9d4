package mutate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// toy adds 3, 4, … of the first lanes of a warp to a counter. The second kernel never runs.
const toy = `.version 8.3
.target sm_90
.address_size 64
.visible .entry toy_sum(
.param .align 8 .b8 toy_sum_param_0[16]
)
.maxntid 32, 1, 1
{
.reg .pred %p<3>;
.reg .b32 %r<8>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [toy_sum_param_0];
ld.param.u32 %r1, [toy_sum_param_0+8];
mov.u32 %r2, %laneid;
setp.lt.u32 %p1, %r2, %r1;
setp.ne.s32 %p2, %r1, 0;
@!%p1 bra $L__BB0_2;
selp.b32 %r3, %r2, 7, %p2;
@%p2 bra $L__BB0_1;
shl.b32 %r3, %r3, 1;
$L__BB0_1:
add.s32 %r6, %r3, 1;
{ .reg .b32 t; brev.b32 t, %r3; mov.b32 %r7, t; }
atom.relaxed.gpu.global.add.u32 %r4, [%rd1], %r3;
red.relaxed.gpu.global.add.u32 [%rd1], 3;
$L__BB0_2:
ret;
}
.visible .entry toy_rest(
.param .align 8 .b8 toy_rest_param_0[16]
)
{
ret;
}
`

var toyImage = device.Image{Name: "toy", Targets: []device.Target{{Arch: 90, PTX: toy}}}

var toyImages = []*device.Image{&toyImage}

// sums is the trial of toy, in which 5 lanes add up to 25.
func sums(t testing.TB, dev device.Device) {
	mod, err := dev.Load(&toyImage)
	if err != nil {
		t.Fatal(err)
	}
	k, err := mod.Kernel("toy_sum")
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	at, err := device.Upload(s, make([]uint32, 1))
	if err != nil {
		t.Fatal(err)
	}
	p := struct{ addr, n uint64 }{uint64(at.Ptr()), 5}
	if err := device.Launch(s, k, device.Dim{X: 1}, device.Dim{X: 32}, &p); err != nil {
		t.Fatal(err)
	}
	got := make([]uint32, 1)
	if err := at.CopyTo(t.Context(), s, got); err != nil || got[0] != 25 {
		t.Errorf("the sum is %d: %v", got[0], err)
	}
}

// All changes of a kernel have the expected outcome in its trial.
func TestVerdicts(t *testing.T) {
	all := Mutants(toyImages, 1)
	got := map[string]Outcome{}
	for _, m := range all {
		if got[m.Name()] != "" {
			t.Errorf("two mutants %s", m.Name())
		}
		v := m.judge(t, []Trial{DeviceTrial("sum", sim.Options{}, sums)}, true)
		got[m.Name()] = v.Outcome
		if v.Outcome == Killed && (v.By != "sum" || v.How == "") {
			t.Errorf("%+v", v)
		}
	}
	for outcome, names := range map[Outcome]string{
		Killed: `9:offset:+8 10:offset:+4 10:offset:-4 12:compare:lt-ge 12:compare:lt-gt 12:compare:lt-le 13:compare:ne-eq
			14:branch:always 14:branch:inverted 14:branch:never 15:select:second 15:select:swapped 16:branch:never 16:branch:inverted
			21:atomic:read 21:atomic:torn 21:offset:+4 21:offset:-4
			22:atomic:torn 22:drop:red 22:immediate:3-0 22:immediate:3-1 22:immediate:3-2 22:immediate:3-4 22:immediate:3-7 22:offset:+4 22:offset:-4`,
		SameValue: `13:immediate:0--1 13:immediate:0-1 15:immediate:7-0 15:immediate:7-15 15:immediate:7-3 15:immediate:7-6 15:immediate:7-8
			15:select:first 16:branch:always`,
		Unreached: "17:immediate:1-0 17:immediate:1-2 17:operator:shl-shr 17:immediate:1-3",
		// These survive because the launch has one block, or because the result is not read.
		Survived: "20:operator:brev-mov 21:scope:cta 22:scope:cta",
	} {
		for name := range strings.FieldsSeq(names) {
			if got["sm90:sum:"+name] != outcome {
				t.Errorf("%s: %q, want %q", name, got["sm90:sum:"+name], outcome)
			}
			delete(got, "sm90:sum:"+name)
		}
	}
	if len(got) > 0 {
		t.Errorf("others: %v", got)
	}
}

// Mutants of several images have unique names, and each changes the file of its image.
func TestImages(t *testing.T) {
	more := device.Image{Name: "toy_more", Variant: "8_8", Targets: []device.Target{{Arch: 90, PTX: strings.ReplaceAll(toy, "toy_sum", "toy_more_sum_8_8")}}}
	names, images := map[string]string{}, map[string]int{}
	for _, m := range Mutants([]*device.Image{&toyImage, &more}, 1) {
		if names[m.Name()] != "" {
			t.Errorf("two mutants %s", m.Name())
		}
		names[m.Name()] = m.Image
		images[m.Image]++
		rewrite := m.rewrite("trap")
		for _, img := range []*device.Image{&toyImage, &more} {
			ptx := img.Targets[0].PTX
			if changed := rewrite(img.String()+"_sm90.ptx", ptx) != ptx; changed != (img.String() == m.Image) {
				t.Fatalf("%s of %s: %s is changed: %v", m.Name(), m.Image, img, changed)
			}
		}
	}
	if names["sm90:sum:12:compare:lt-ge"] != "toy" || names["sm90:more_sum_8_8:12:compare:lt-ge"] != "toy_more_8_8" || images["toy"] != images["toy_more_8_8"] {
		t.Errorf("%v, %v", names, images)
	}
}

// The order of mutants depends on the seed, and begins with one of each kind.
func TestOrder(t *testing.T) {
	names := func(seed uint64) (all []string) {
		for _, m := range Mutants(toyImages, seed) {
			all = append(all, m.Name())
		}
		return all
	}
	one := names(1)
	if !slices.Equal(one, names(1)) || slices.Equal(one, names(2)) {
		t.Errorf("orders of two seeds: %q, %q", one, names(2))
	}
	first := map[string]bool{}
	for _, name := range one[:9] {
		first[strings.Split(name, ":")[3]] = true
	}
	if len(first) != 9 {
		t.Errorf("nine kinds of mutants begin with %q", one[:9])
	}
}

// A mutant has no influence on the report if its PTX cannot be loaded.
func TestUnloaded(t *testing.T) {
	m := Mutants(toyImages, 1)[0]
	m.Now = "no such instruction"
	if v := m.judge(t, nil, true); v.Outcome != Unloaded || v.How == "" || v.survived() {
		t.Errorf("%+v", v)
	}
}

func TestReasons(t *testing.T) {
	for _, text := range []string{"same | a | b | c", "same | a | b | c | ", "equal | a | b | c | d"} {
		if _, err := ParseReasons(text); err == nil {
			t.Errorf("%q is a table", text)
		}
	}
	all, err := ParseReasons(`# a table
same | unreached | *:sum:* | * | nobody comes here
escapes | * | sm90:*:scope:cta | *<red.*>; ret | one block`)
	if err != nil {
		t.Fatal(err)
	}
	v := &Verdict{Mutant: "sm90:sum:1:scope:cta", Outcome: Survived, Context: "a; <red.add>; ret"}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, Escapes},
		{func() { v.Outcome = Unreached }, Same},
		{func() { v.Mutant = "sm90:max:1:scope:cta" }, Escapes},
		{func() { v.Context = "a; <red.add>; retry" }, ""},
	} {
		c.change()
		if r := all.find(v, true); (r == nil) != (c.want == "") || r != nil && r.Class != c.want {
			t.Errorf("%+v: %+v, want %q", v, r, c.want)
		}
	}
}

// A report counts mutants. Unexplained survivors count as escaped.
func TestReport(t *testing.T) {
	reasons, err := ParseReasons("same | * | *:drop:* | * | nobody reads it\nescapes | * | *:scope:* | * | one block")
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []*Verdict
	for i, outcome := range []Outcome{Killed, Killed, Killed, Unloaded, Survived, Unreached, SameValue} {
		kind := []string{"scope", "drop", "drop", "mask", "drop", "scope", "select"}[i]
		verdicts = append(verdicts, &Verdict{Mutant: "sm90:sum:1:" + kind + ":x", Outcome: outcome})
	}
	r := newReport(verdicts, reasons, true)
	if want := (row{all: 7, killed: 3, unloaded: 1, same: 1, escaped: 2}); *r.rows[sum] != want || r.rows[sum].share() != 60 {
		t.Errorf("%+v, want %+v", *r.rows[sum], want)
	}
	if len(r.unexplained) != 1 || r.unexplained[0] != verdicts[6] {
		t.Errorf("%v", r.unexplained)
	}
	for _, line := range []string{"drop    3        2       0           1     0        100.0 %", "1 escapes: one block", "no reason: sm90:sum:1:select:x"} {
		if !strings.Contains(r.String(), line) {
			t.Errorf("no line %q in\n%s", line, r)
		}
	}
}

// A truncated log is read up to the truncation, and continued.
func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	for i := range 3 {
		logged, note, err := openLog(name)
		if err != nil || len(logged) != i {
			t.Fatalf("%d verdicts, want %d: %v", len(logged), i, err)
		}
		if err := note(&Verdict{Mutant: fmt.Sprint(i), Was: "a\nb"}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, text[:len(text)-5], 0o644)
	}
	if logged, _, e := openLog(name); err != nil || e != nil || len(logged) != 2 || logged["1"].Was != "a\nb" {
		t.Errorf("%v: %v, %v", logged, err, e)
	}
}

// A trial that does not end loses its devices. A trial that panics fails.
func TestTrialsEnd(t *testing.T) {
	ended := make(chan error)
	for want, x := range map[string]Trial{
		"panic: out of order": {"panics", func(testing.TB, *trialRun) string { panic("out of order") }},
		"no end after": DeviceTrial("goes on", sim.Options{}, func(t testing.TB, dev device.Device) {
			for {
				if _, err := dev.Memory(); err != nil {
					ended <- err
					return
				}
			}
		}),
	} {
		if failure := x.judge(t, nil, 50*time.Millisecond); !strings.HasPrefix(failure, want) {
			t.Errorf("%s: %q, want %q", x.Name, failure, want)
		}
	}
	if err := <-ended; !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
}
