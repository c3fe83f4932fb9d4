package sim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// golden holds the results of a GPU for each form. Every thread writes formOutputs words. A column
// is one of these words for all threads, in hexadecimal, or "" if all are 0. Refused lists forms
// that the GPU's driver refused. A form in neither list is newer than the recording.
type golden struct {
	Device  string // name of the GPU and its driver
	Forms   map[string][formOutputs]string
	Refused []string
}

const goldenFile = "testdata/hopper.json.gz"

// columns encodes outputs in the format of golden.
func columns(v []uint64) (c [formOutputs]string) {
	for i := range c {
		var words []string
		zero := true
		for j := i; j < len(v); j += formOutputs {
			words = append(words, strconv.FormatUint(v[j], 16))
			zero = zero && v[j] == 0
		}
		if !zero {
			c[i] = strings.Join(words, " ")
		}
	}
	return c
}

// readGolden reads the results of a GPU.
func readGolden() (g golden, err error) {
	f, err := os.Open(goldenFile)
	if err != nil {
		return g, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return g, err
	}
	return g, json.NewDecoder(z).Decode(&g)
}

// formInput returns the input of the kernels of forms: edges of types, small numbers and random
// bits.
func formInput() []uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	edges := []uint64{0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000,
		1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, ^uint64(0), ^uint64(0) - 1, 0xffffffff80000000, 0x8000000080000000}
	in := make([]uint64, formThreads*formInputs)
	for i := range in {
		switch rng.IntN(3) {
		case 0:
			in[i] = edges[rng.IntN(len(edges))]
		case 1:
			in[i] = rng.Uint64N(70)
		default:
			in[i] = rng.Uint64()
		}
	}
	return in
}

// runForm executes the kernel of a form on a device.
func runForm(t testing.TB, dev device.Device, f formKernel) ([]uint64, error) {
	m, err := dev.Load(&device.Image{Name: "form", Targets: []device.Target{{Arch: f.arch, PTX: f.ptx}}})
	if err != nil {
		return nil, err
	}
	k, err := m.Kernel("k")
	if err != nil {
		return nil, err
	}
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	in, err := device.Upload(s, f.in)
	if err != nil {
		return nil, err
	}
	defer in.Free()
	threads := len(f.in) / formInputs
	out, err := device.Upload(s, make([]uint64, threads*formOutputs))
	if err != nil {
		return nil, err
	}
	defer out.Free()
	p := [4]uint64{uint64(in.Ptr()), uint64(out.Ptr()), 0xfedcba9876543210, 0x8182838485868788}
	if err := device.Launch(s, k, device.Dim{}, device.Dim{X: threads}, &p); err != nil {
		return nil, err
	}
	v := make([]uint64, out.Len())
	return v, out.CopyTo(t.Context(), s, v)
}

// Every form loads, and has the same result under every scheduler. Most forms that compute from
// registers alone run under Fast only.
func TestFormsRun(t *testing.T) {
	for i, f := range formKernels() {
		var first []uint64
		schedulers := []Scheduler{Fast, Random, PCT}
		if op, _, _ := strings.Cut(f.form, "."); i%8 != 0 && (strings.HasPrefix(op, "set") || op == "cvt" || floatSources[op] > 0) {
			schedulers = schedulers[:1]
		}
		for _, s := range schedulers {
			d, err := Open(&Options{Scheduler: s})
			if err != nil {
				t.Fatal(err)
			}
			v, err := runForm(t, d, f)
			if err != nil {
				t.Errorf("%s: %v", f.form, err)
				break
			}
			if first == nil {
				first = v
			}
			// The result of activemask depends on which lanes run together.
			if !slices.Equal(v, first) && f.form != "activemask.b32" {
				t.Errorf("%s: %s and %s differ", f.form, Fast, s)
			}
			d.Close()
		}
	}
}

// Every row of the table has a form, except those that compute nothing.
func TestEveryRowHasAForm(t *testing.T) {
	without := []string{"bra", "brx", "ret", "exit", "trap", "nanosleep", "prefetch", "prefetchu", "ldu"}
	have := map[*opcode]bool{}
	for _, f := range formKernels() {
		op := f.form
		for i := range op {
			if op[i] == ' ' {
				op = op[:i]
				break
			}
		}
		row, _, err := match(op)
		if err != nil {
			t.Fatal(err)
		}
		have[row] = true
	}
	for name, rows := range table {
		for i := range rows {
			if !have[&rows[i]] && !slices.Contains(without, name) {
				t.Errorf("%s %s has no form", name, rows[i].slots)
			}
		}
	}
}

// The results of the forms equal those of the hardware, bit for bit.
func TestGolden(t *testing.T) {
	g, err := readGolden()
	if err != nil {
		t.Fatalf("%v: record it on a GPU, see TestRecord", err)
	}
	var unrecorded []string
	for _, f := range formKernels() {
		want, ok := g.Forms[f.form]
		if !ok {
			if slices.Contains(g.Refused, f.form) {
				t.Errorf("%s: %s does not have this form", f.form, g.Device)
			} else {
				unrecorded = append(unrecorded, f.form)
			}
			continue
		}
		d, err := Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := runForm(t, d, f)
		if err != nil {
			t.Errorf("%s: %v", f.form, err)
			continue
		}
		got := columns(v)
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: output %d differs: %s", f.form, i, difference(got[i], want[i]))
				break
			}
		}
		d.Close()
	}
	if len(unrecorded) > 0 {
		t.Skipf("%d forms are not compared: record them on a GPU, see TestRecord: %s", len(unrecorded), strings.Join(unrecorded, " "))
	}
}

// difference describes the first thread with different words.
func difference(got, want string) string {
	a, b := strings.Fields(got), strings.Fields(want)
	for i := range max(len(a), len(b)) {
		x, y := "0", "0"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("thread %d has 0x%s, the hardware 0x%s", i, x, y)
		}
	}
	return "in nothing"
}

// record runs every form on a device and writes the results.
func record(t testing.TB, dev device.Device, file string) {
	p := dev.Properties()
	g := golden{Device: p.Name + ", driver " + p.Driver, Forms: map[string][formOutputs]string{}}
	for _, f := range formKernels() {
		v, err := runForm(t, dev, f)
		if errors.Is(err, device.ErrKernel) {
			t.Logf("%s: %v", f.form, err)
			g.Refused = append(g.Refused, f.form)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", f.form, err)
		}
		g.Forms[f.form] = columns(v)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.NewEncoder(z).Encode(g), z.Close(), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}
