package sim

import (
	"testing"

	"github.com/weftgo/weft/device"
)

// benchBody is a loop like those of hash tables: it hashes a key, reads a bucket, votes, compares,
// and sometimes counts.
const benchBody = `
	mov.u32 %r3, 0;
	mov.u64 %rd6, 0;
	cvt.u64.u32 %rd3, %r1;
LOOP:
	xor.b64 %rd3, %rd3, 12345;
	shr.u64 %rd4, %rd3, 32;
	xor.b64 %rd3, %rd3, %rd4;
	mul.lo.s64 %rd3, %rd3, -1607749812424331923;
	shr.u64 %rd4, %rd3, 28;
	xor.b64 %rd4, %rd3, %rd4;
	and.b64 %rd4, %rd4, 4080;
	add.s64 %rd5, %rd1, %rd4;
	ld.global.v2.b64 {%rd7, %rd8}, [%rd5];
	setp.eq.s64 %p1, %rd7, %rd3;
	vote.sync.ballot.b32 %r4, %p1, -1;
	popc.b32 %r5, %r4;
	cvt.u64.u32 %rd9, %r5;
	add.s64 %rd6, %rd6, %rd9;
	setp.ne.s64 %p2, %rd8, 1;
	@%p2 bra NEXT;
	atom.relaxed.gpu.global.add.u64 %rd10, [%rd1], 0;
NEXT:
	add.s32 %r3, %r3, 1;
	setp.lt.u32 %p3, %r3, 64;
	@%p3 bra LOOP;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd6;`

func benchmark(b *testing.B, opts *Options) {
	d, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	m, err := d.Load(&device.Image{Name: "bench", Targets: []device.Target{{Arch: 80, PTX: ptx(benchBody)}}})
	if err != nil {
		b.Fatal(err)
	}
	k, err := m.Kernel("k")
	if err != nil {
		b.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	in := make([]uint64, 512)
	for i := range in {
		in[i] = uint64(i)
	}
	table, err := device.Upload(s, in)
	if err != nil {
		b.Fatal(err)
	}
	const grid, block = 4, 256
	out, err := device.Make[uint64](d, grid*block)
	if err != nil {
		b.Fatal(err)
	}
	p := [2]device.Ptr{table.Ptr(), out.Ptr()}
	for b.Loop() {
		if err := device.Launch(s, k, device.Dim{X: grid}, device.Dim{X: block}, &p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(d.Steps())/b.Elapsed().Seconds()/1e6, "Minstr/s")
}

func BenchmarkFast(b *testing.B)   { benchmark(b, nil) }
func BenchmarkRandom(b *testing.B) { benchmark(b, &Options{Scheduler: Random}) }
func BenchmarkPCT(b *testing.B)    { benchmark(b, &Options{Scheduler: PCT}) }
