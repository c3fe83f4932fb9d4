package sim

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// hostile lists bodies that no compiler writes.
var hostile = []string{
	"L: bra L;", "bar.warp.sync 3;", "bar.sync 1, 32;", "elect.sync _|%p1, -1;", "setp.eq.u32 _|%p2, %r1, %r2;", ".pragma \"nounroll\"; ret;",
	"{ .reg .b32 %r1; mov.u32 %r1, 0; }", "T: .branchtargets A, B; brx.idx %r2, T; A: ret; B:", "@!%p1 exit;", "st.u64 [%rd1+8], %rd2;",
	".shared .b32 s[4]; ld.shared.u32 %r1, [s+4];", "mov.b64 {%r1, _}, %rd1;", "nanosleep.u32 20;", "ld.local.v4.u32 {%r1, %r2, %r3, %r4}, [lo];",
	".shared .align 16 .b8 huge[99999999999999];", ".reg .b64 %x<2000000000>;", ".local .align 4611686018427387904 .b8 l[1];",
}

// load loads a module and launches its kernel. The result must be a value or an error, whatever the
// text is. It must not panic, run forever or take all memory.
func load(t testing.TB, src string, opts Options) {
	opts.Memory, opts.Budget = 1<<20, 1<<12
	d, err := Open(&opts)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := d.Load(&device.Image{Name: "fuzz", Targets: []device.Target{{Arch: 80, PTX: src}}})
	if err != nil {
		return
	}
	k, err := m.Kernel("k")
	if err != nil {
		return
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	in, err := device.Upload(s, make([]uint64, 1<<10))
	if err != nil {
		return
	}
	params := make([]byte, k.ParamSize())
	for i := 0; i+8 <= len(params); i += 8 {
		copy(params[i:], device.Bytes([]uint64{uint64(in.Ptr())}))
	}
	s.Driver().Launch(k, device.Dim{X: 2}, device.Dim{X: 40}, params)
}

func FuzzLoad(f *testing.F) {
	for _, body := range hostile {
		f.Add(ptx(body), uint64(2))
	}
	f.Add(".version 8.5\n.target sm_90\n.global .align 4 .u32 g[2] = {1, 2};\n.entry k(.param .u64 a) { .reg .u32 %r; ld.global.u32 %r, [g+4]; ret; }", uint64(3))
	f.Fuzz(func(t *testing.T, src string, seed uint64) {
		load(t, src, Options{Scheduler: Random, Seed: seed, Races: true})
	})
}

// Almost correct text, which consists of kernels of forms with some words replaced, must also give
// a value or an error.
func TestDisturbedText(t *testing.T) {
	var texts [][]string
	var pool []string
	for _, f := range formKernels() {
		head, body, _ := strings.Cut(f.ptx, "%Q, %d1, 0;\n")
		words := strings.Fields(strings.NewReplacer(",", " , ", ";", " ; ", "[", " [ ", "]", " ] ", "{", " { ", "}", " } ", "|", " | ", "!", " ! ").Replace(body))
		texts = append(texts, append([]string{head, "%Q, %d1, 0;"}, words...))
		pool = append(pool, words...)
	}
	for _, body := range hostile {
		pool = append(pool, strings.Fields(body)...)
	}
	for seed := range uint64(disturbed) {
		rng := rand.New(rand.NewPCG(seed, 5))
		words := append([]string{}, texts[rng.IntN(len(texts))]...)
		for range 1 + rng.IntN(3) {
			i := 2 + rng.IntN(len(words)-2)
			switch rng.IntN(4) {
			case 0:
				words[i] = ""
			case 1:
				words[i] += " " + pool[rng.IntN(len(pool))]
			default:
				words[i] = pool[rng.IntN(len(pool))]
			}
		}
		text := strings.Join(words, " ")
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("seed %d: %v\n%s", seed, p, text)
				}
			}()
			schedulers := []Scheduler{Fast, Random, PCT}
			load(t, text, Options{Scheduler: schedulers[rng.IntN(3)], Seed: seed})
		}()
	}
}

const disturbed = 2000
