package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// Lanes that access the same sector or line in one instruction request it once.
func TestRequests(t *testing.T) {
	type count struct {
		kind           RequestKind
		sectors, lines int
	}
	for _, c := range []struct {
		name, body string
		want       []count
	}{
		{"words in a row", `mad.wide.u32 %rd3, %r2, 8, %rd1; ld.global.u64 %rd4, [%rd3];`, []count{{Load, 8, 2}}},
		{"vectors in a row", `mad.wide.u32 %rd3, %r2, 16, %rd1; ld.global.v2.u64 {%rd4, %rd5}, [%rd3];`, []count{{Load, 16, 4}}},
		{"a word per line", `mad.wide.u32 %rd3, %r2, 128, %rd2; st.global.u32 [%rd3+32], 1;`, []count{{Store, 32, 32}}},
		{"one word", `red.global.add.u64 [%rd1], 1;`, []count{{Atomic, 1, 1}}},
		{"descending words", `sub.u32 %r3, 31, %r2; mad.wide.u32 %rd3, %r3, 8, %rd1; ld.relaxed.gpu.global.u64 %rd4, [%rd3];`, []count{{Load, 8, 2}}},
		{"some lanes", `setp.lt.u32 %p1, %r2, 5; mad.wide.u32 %rd3, %r2, 8, %rd1; @%p1 atom.global.exch.b64 %rd4, [%rd3], 1;`, []count{{Atomic, 2, 1}}},
		{"no lane", `setp.lt.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], 1;`, nil},
		{"lanes that part", `setp.lt.u32 %p1, %r2, 5; @%p1 bra A; st.global.u32 [%rd1], 1; bra B; A: st.global.u32 [%rd1+8], 1; B: st.global.u32 [%rd1], 1;`,
			[]count{{Store, 1, 1}, {Store, 1, 1}, {Store, 1, 1}}},
		{"generic addresses", `st.shared.u32 [sh], 1; mov.u64 %rd3, sh; cvta.shared.u64 %rd4, %rd3; setp.lt.u32 %p1, %r2, 16; selp.b64 %rd5, %rd1, %rd4, %p1; ld.u32 %r3, [%rd5];`,
			[]count{{Load, 1, 1}}},
		{"no global memory", `ld.param.u64 %rd3, [p]; st.shared.u32 [sh], 1; st.local.u32 [lo], 1; fence.acq_rel.gpu; div.u32 %r3, %r2, 3;`, nil},
	} {
		var seen []Request
		r := newRig(t, &Options{Requests: func(r Request) {
			r.Sectors = slices.Clone(r.Sectors)
			seen = append(seen, r)
		}}, ptx(c.body), make([]uint64, 64), 512)
		for launch := range 2 {
			seen = nil
			if err := r.launch(1, 32); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var got []count
			for _, q := range seen {
				sectors, lines := q.CountIn(r.in.Ptr(), 512)
				behind, more := q.CountIn(r.out.Ptr(), 4096)
				got = append(got, count{q.Kind, sectors + behind, lines + more})
				if q.Launch != launch || q.Kernel != "k" || !slices.IsSorted(q.Sectors) || len(q.Sectors) != sectors+behind {
					t.Errorf("%s: launch %d: request %+v, of which %d sectors are known", c.name, launch, q, sectors+behind)
				}
				if at := strings.Index(ptx(c.body), c.body); q.Line != 1+strings.Count(ptx(c.body)[:at], "\n") {
					t.Errorf("%s: line %d is not that of the body", c.name, q.Line)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: requests %v, want %v", c.name, got, c.want)
			}
		}
		if err := r.dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

// CountIn counts the sectors that begin in a part of memory, and the lines of these sectors.
func TestRequestCountIn(t *testing.T) {
	r := Request{Sectors: []device.Ptr{0x1000, 0x1060, 0x1080, 0x1100}}
	for _, c := range []struct{ at, size, sectors, lines int }{
		{0x1000, 0x200, 4, 3}, {0x1000, 0x80, 2, 1}, {0x1020, 0x61, 2, 2}, {0x1020, 0x60, 1, 1}, {0x1100, 1, 1, 1}, {0x1120, 0x1000, 0, 0},
	} {
		if sectors, lines := r.CountIn(device.Ptr(c.at), c.size); sectors != c.sectors || lines != c.lines {
			t.Errorf("%#x and %#x bytes: %d sectors, %d lines, want %+v", c.at, c.size, sectors, lines, c)
		}
	}
}
