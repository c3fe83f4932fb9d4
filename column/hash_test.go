package column_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hash"
)

func hashes(dev device.Host, seed uint64, keys ...column.Column) []uint64 {
	h := make([]uint64, keys[0].Len())
	column.Hash(dev, keys, seed, h)
	return h
}

// null returns a column of one null, over any value.
func null(c column.Column) column.Column {
	return c.WithValid(column.OfBools([]bool{false}))
}

func texts(s ...string) column.Column { return column.OfStrings(s) }

// The hashes of rows never change. Another program, in another language, computed these from the
// documentation of Hash and the specification of XXH64.
func TestGoldenHashes(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	nan32 := math.Float32frombits(0xff800001)
	nan64 := math.Float64frombits(0x7ff0dead0000beef)
	zero := 0.0
	type cols = []column.Column
	for _, tt := range []struct {
		name string
		keys cols
		seed uint64
		want uint64
	}{
		{"int8 0", cols{column.Of([]int8{0})}, 0, 0x48218226ff3cd4bf},
		{"int8 5", cols{column.Of([]int8{5})}, 0, 0xb760672ed3af6909},
		{"int8 -1", cols{column.Of([]int8{-1})}, 0, 0xf2c27ef86a95b080},
		{"int8 -128", cols{column.Of([]int8{-128})}, 0, 0xf5a8f2b1d60a105e},
		{"int16 5", cols{column.Of([]int16{5})}, 0, 0xb760672ed3af6909},
		{"int16 -32768", cols{column.Of([]int16{-32768})}, 0, 0x18e4ee85f53a0a17},
		{"int32 1", cols{column.Of([]int32{1})}, 0, 0x9e0160293a33aaf7},
		{"int32 5", cols{column.Of([]int32{5})}, 0, 0xb760672ed3af6909},
		{"int32 -1", cols{column.Of([]int32{-1})}, 0, 0xf2c27ef86a95b080},
		{"int32 min", cols{column.Of([]int32{math.MinInt32})}, 0, 0xc561b1956281c3b2},
		{"int64 5", cols{column.Of([]int64{5})}, 0, 0xb760672ed3af6909},
		{"int64 5, seed 1", cols{column.Of([]int64{5})}, 1, 0x022190e6f079ef17},
		{"int64 5, last seed", cols{column.Of([]int64{5})}, math.MaxUint64, 0xcad9edc6a1468163},
		{"int64 -1", cols{column.Of([]int64{-1})}, 0, 0xf2c27ef86a95b080},
		{"int64 min", cols{column.Of([]int64{math.MinInt64})}, 0, 0x42f83292896bfc97},
		{"uint8 255", cols{column.Of([]uint8{255})}, 0, 0x9b81c4efd23cec85},
		{"uint16 65535", cols{column.Of([]uint16{65535})}, 0, 0xd4f84b5516aaa5de},
		{"uint32 max", cols{column.Of([]uint32{math.MaxUint32})}, 0, 0x109116867520c2b2},
		{"uint64 max", cols{column.Of([]uint64{math.MaxUint64})}, 0, 0xf2c27ef86a95b080},
		{"float64 0", cols{column.Of([]float64{0})}, 0, 0x48218226ff3cd4bf},
		{"float64 -0", cols{column.Of([]float64{-zero})}, 0, 0x48218226ff3cd4bf},
		{"float64 -0 bits", cols{column.Of([]float64{math.Copysign(0, -1)})}, 0,
			0x48218226ff3cd4bf},
		{"float64 NaN", cols{column.Of([]float64{math.NaN()})}, 0, 0x7e9f8f103a97e3bd},
		{"float64 other NaN", cols{column.Of([]float64{nan64})}, 0, 0x7e9f8f103a97e3bd},
		{"float64 1.5", cols{column.Of([]float64{1.5})}, 0, 0x79d2a77931b3630f},
		{"float64 -1.5", cols{column.Of([]float64{-1.5})}, 0, 0xb0fa123f69fd4fc0},
		{"float64 .1", cols{column.Of([]float64{.1})}, 0, 0xbbdc36ed93d94c34},
		{"float64 5", cols{column.Of([]float64{5})}, 0, 0x35b704f003e8dc15},
		{"float64 +Inf", cols{column.Of([]float64{math.Inf(1)})}, 0, 0xb5685bb413b99865},
		{"float64 -Inf", cols{column.Of([]float64{math.Inf(-1)})}, 0, 0x52cb219de14387f5},
		{"float32 -0", cols{column.Of([]float32{float32(math.Copysign(0, -1))})}, 0,
			0x48218226ff3cd4bf},
		{"float32 NaN", cols{column.Of([]float32{nan32})}, 0, 0x7e9f8f103a97e3bd},
		{"float32 1.5", cols{column.Of([]float32{1.5})}, 0, 0x79d2a77931b3630f},
		{"float32 .1", cols{column.Of([]float32{.1})}, 0, 0x3b3b8dfacd3348b5},
		{"float32 least", cols{column.Of([]float32{math.SmallestNonzeroFloat32})}, 0,
			0xfa10b4dc2db6b59d},
		{"float32 -Inf", cols{column.Of([]float32{float32(math.Inf(-1))})}, 0, 0x52cb219de14387f5},
		{"true", cols{column.Of([]bool{true})}, 0, 0x9e0160293a33aaf7},
		{"false", cols{column.Of([]bool{false})}, 0, 0x48218226ff3cd4bf},
		{"null int64", cols{null(column.Of([]int64{7}))}, 0, 0x927a7c57dc016e42},
		{"null float32", cols{null(column.Of([]float32{nan32}))}, 0, 0x927a7c57dc016e42},
		{"null text", cols{null(texts("x"))}, 0, 0x927a7c57dc016e42},
		{"null, seed 1", cols{null(texts(""))}, 1, 0xafe5d660580bbfa9},
		{"no bytes", cols{texts("")}, 0, 0x0ae22d54ad250ded},
		{"a", cols{texts("a")}, 0, 0x315efa94fd7e7c93},
		{"weft", cols{texts("weft")}, 0, 0xe32d06ba827ef062},
		{"weft, seed 1", cols{texts("weft")}, 1, 0xd75caf07d4041dbe},
		{"é", cols{texts("é")}, 0, 0x9164484449cf76d7},
		{"5, weft", cols{column.Of([]int32{5}), texts("weft")}, 0, 0x8a224d2d644fa527},
		{"weft, 5", cols{texts("weft"), column.Of([]int32{5})}, 0, 0x2dfb9965aeea1b2c},
		{"null, 5", cols{null(column.Of([]int8{5})), column.Of([]int8{5})}, 0, 0x5c3c6a252aec1b0e},
		{"5, null", cols{column.Of([]int8{5}), null(column.Of([]int8{5}))}, 0, 0x1c988658a6e614a6},
		{"null, null", cols{null(texts("a")), null(column.Of([]bool{true}))}, 0,
			0xdc2224dbea4d5a72},
		{"a, b", cols{texts("a"), texts("b")}, 0, 0x1e216fe564de215c},
		{"ab and no bytes", cols{texts("ab"), texts("")}, 0, 0xe0779ef33bda4f12},
		{"five columns", cols{
			column.Of([]uint8{1}), column.Of([]int64{2}), column.Of([]float32{3.5}),
			column.Of([]bool{true}), texts("x"),
		}, 42, 0xf127a9f8249073d2},
	} {
		if got := hashes(dev, tt.seed, tt.keys...)[0]; got != tt.want {
			t.Errorf("%s: %#018x, want %#018x", tt.name, got, tt.want)
		}
	}
	none := make([]uint64, 1)
	if column.Hash(dev, nil, 0, none); none[0] != 0xe220a8397b1dcdaf {
		t.Errorf("a row without columns: %#018x", none[0])
	}
}

// Byte i of string n is 7*i+n. Strings end at each position of XXH64's words and stripes.
func TestGoldenLengths(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	var values []string
	for _, n := range goldenLengths() {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(7*i + n)
		}
		values = append(values, string(b))
	}
	for i, h := range hashes(dev, 0, column.OfStrings(values)) {
		if h != goldenOfLength[i] {
			t.Errorf("%d bytes: %#018x, want %#018x", len(values[i]), h, goldenOfLength[i])
		}
	}
}

func goldenLengths() (n []int) {
	for i := range 40 {
		n = append(n, i+1)
	}
	return append(n, 64, 100, 1000)
}

var goldenOfLength = []uint64{
	0xbf2d23b65d3edfeb, 0xc399800234242941, 0x5ca268dc9b8b8486, 0x1a203de0dac9c7c4,
	0x6d65ad7e97e9a1f9, 0x7f28d1d37d599c33, 0xeda6418fb6d8b65b, 0x3e20ad5475c3e927,
	0x321e91352e009793, 0xb1f47e6673cede48, 0x2d13622e37c9b46a, 0x6b29aab586c9ac06,
	0x729e6f6f19973ad6, 0xb87a98ae56dc32fb, 0x0f477e72a2196413, 0xba3016e27f7496da,
	0x84b1a8a2cdd64a85, 0xe8ff328277fb7219, 0x7433166fe7c921ce, 0xa64149b4f3f08e5a,
	0x0505f3937dfa871b, 0xb44728d8680d1e4c, 0xeb22f2ea4c86a6c9, 0x4af805c805c5cd5b,
	0xfcc601002f474e00, 0x469ec9cd6e1bd318, 0x9c544585ace6f126, 0x03a66be03a393319,
	0x7858e25d361e4a02, 0x84c5c79d7c3db2e0, 0xafb3f4e570ea0a5a, 0x617341ac391e9d3d,
	0x05670887460fe3f7, 0x7020070365fb6e82, 0x25f11f9f0c661f85, 0x8de3122169b01a1f,
	0xcd1db68826ce7e1b, 0x6eee2f1a2a4df4be, 0x960a1ef85c247748, 0xd303f00ca9ba0529,
	0x990f4301d02a0425, 0x039237278dbdc1e9, 0x1ae6fa6b222e5e17,
}

// textLayouts returns a text column in each layout, with other rows before and after it in memory
// and a bitmap at a random offset. The bytes of nulls differ by layout.
func textLayouts(t *rapid.T, values []string, valid []bool) map[string]column.Column {
	n := len(values)
	before, after := rapid.IntRange(0, 9).Draw(t, "before"), rapid.IntRange(0, 9).Draw(t, "after")
	garbage := rapid.SampledFrom([]string{"", "x", "other text of some length"})
	layouts := make(map[string]column.Column)
	for _, name := range []string{"strings", "small", "large", "codes"} {
		whole := make([]string, before+n+after)
		for i := range whole {
			if j := i - before; j >= 0 && j < n && valid[j] {
				whole[i] = values[j]
			} else {
				whole[i] = garbage.Draw(t, "garbage")
			}
		}
		c := textColumn(t, name, whole)
		layouts[name] = withBits(t, c.Slice(before, before+n), valid)
	}
	return layouts
}

func textColumn(t *rapid.T, layout string, values []string) column.Column {
	small, large, data := []int32{0}, []int64{0}, []byte(nil)
	for _, s := range values {
		data = append(data, s...)
		small, large = append(small, int32(len(data))), append(large, int64(len(data)))
	}
	var c column.Column
	var err error
	switch layout {
	case "small":
		c, err = column.OfOffsets(small, data)
	case "large":
		c, err = column.OfOffsets(large, data)
	case "codes":
		dict := slices.Compact(slices.Sorted(slices.Values(values)))
		codes := make([]uint32, len(values))
		for i, s := range values {
			at, _ := slices.BinarySearch(dict, s)
			codes[i] = uint32(at)
		}
		for range rapid.IntRange(0, 40).Draw(t, "unused") { // values that no row uses
			dict = append(dict, "unused")
		}
		c, err = column.OfCodes(codes, column.OfStrings(dict))
	default:
		c = column.OfStrings(values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withBits adds a bitmap to a column, at a random offset in memory with other bits around it.
func withBits(t *rapid.T, c column.Column, valid []bool) column.Column {
	if !slices.Contains(valid, false) && rapid.Bool().Draw(t, "no bitmap") {
		return c
	}
	offset := rapid.IntRange(0, 70).Draw(t, "offset")
	bits := make([]byte, (offset+len(valid)+7)/8+rapid.IntRange(0, 9).Draw(t, "bytes after"))
	for i := range bits {
		bits[i] = byte(0x5a * (i + 1))
	}
	for i, v := range valid {
		at := offset + i
		bits[at/8] &^= 1 << (at % 8)
		if v {
			bits[at/8] |= 1 << (at % 8)
		}
	}
	return c.WithValid(column.OfBits(bits, offset, len(valid)))
}

func drawValid(t *rapid.T, n int) []bool {
	valid := make([]bool, n)
	nulls := rapid.SampledFrom([]int{0, 1, 5, 9}).Draw(t, "nulls of 10")
	for i := range valid {
		valid[i] = rapid.IntRange(0, 9).Draw(t, "valid") >= nulls
	}
	return valid
}

// Columns of equal byte strings have equal hashes in all layouts, slices and bitmaps.
func TestTextLayoutsHashAlike(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 150).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		same := rapid.Bool().Draw(t, "one width")
		values, valid := make([]string, n), drawValid(t, n)
		for i := range values {
			length := 5
			if !same {
				length = rapid.SampledFrom([]int{0, 1, 4, 8, 15, 31, 32, 33, 90}).Draw(t, "length")
			}
			values[i] = strings.Repeat(string(rune('a'+rapid.IntRange(0, 3).Draw(t, "text"))),
				length)
		}
		layouts := textLayouts(t, values, valid)
		if same {
			c, err := column.OfWidth(5, []byte(strings.Join(values, "")))
			if err != nil {
				t.Fatal(err)
			}
			layouts["width"] = withBits(t, c, valid)
		}
		want := hashes(dev, seed, layouts["strings"])
		for i := range want {
			one := texts(values[i])
			if !valid[i] {
				one = null(one)
			}
			if got := hashes(dev, seed, one)[0]; got != want[i] {
				t.Fatalf("row %d of %d hashes to %#x, alone to %#x", i, n, want[i], got)
			}
		}
		for name, c := range layouts {
			if got := hashes(dev, seed, c); !slices.Equal(got, want) {
				t.Fatalf("%s: %x, want %x", name, got, want)
			}
		}
	})
}

// Equal integers have equal hashes in all types. So have equal floats of 32 and 64 bits.
func TestWidthsHashAlike(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		lo := rapid.IntRange(0, n).Draw(t, "lo")
		ints, floats, valid := make([]int8, n), make([]float32, n), drawValid(t, n-lo)
		for i := range ints {
			ints[i] = rapid.Int8Min(0).Draw(t, "integer")
			floats[i] = rapid.Float32().Draw(t, "float")
		}
		alike := func(columns ...column.Column) {
			want := hashes(dev, 7, withBits(t, columns[0].Slice(lo, n), valid))
			for _, c := range columns[1:] {
				if got := hashes(dev, 7, withBits(t, c.Slice(lo, n), valid)); !slices.Equal(got,
					want) {
					t.Fatalf("%v: %x, want %x", c.Type(), got, want)
				}
			}
		}
		alike(column.Of(ints), castFixed[int16](ints), castFixed[int32](ints), castFixed[int64](ints), castFixed[uint8](ints),
			castFixed[uint16](ints), castFixed[uint32](ints), castFixed[uint64](ints))
		alike(column.Of(floats), castFixed[float64](floats))
	})
}

func castFixed[T, F int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](
	from []F,
) column.Column {
	to := make([]T, len(from))
	for i, v := range from {
		to[i] = T(v)
	}
	return column.Of(to)
}

// A byte of a bool that is neither 0 nor 1, as foreign memory may contain, is true.
func TestForeignBools(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	raw := []uint8{0, 1, 2, 255}
	h := hashes(dev, 0, column.Of(unsafe.Slice((*bool)(unsafe.Pointer(&raw[0])), len(raw))))
	if h[0] == h[1] || h[1] != h[2] || h[1] != h[3] {
		t.Errorf("bytes %v hash to %x", raw, h)
	}
}

func TestHashLengths(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	defer func() {
		if msg := fmt.Sprint(recover()); !strings.Contains(msg, "key column 1 has 2 rows") {
			t.Errorf("%s", msg)
		}
	}()
	keys := []column.Column{column.Of([]int8{1}), column.Of([]int8{1, 2})}
	column.Hash(dev, keys, 0, make([]uint64, 1))
}

// unevenness returns the chi-square of counts that should be equal, in standard deviations from its
// mean. A value above 6 is not chance.
func unevenness(counts []int) float64 {
	n := 0
	for _, c := range counts {
		n += c
	}
	mean, sum := float64(n)/float64(len(counts)), 0.0
	for _, c := range counts {
		sum += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	freedom := float64(len(counts) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}

// keySets returns sets of typical keys.
func keySets(n int) map[string]column.Column {
	seq, wide, high, text := make([]int64, n), make([]int64, n), make([]int64, n), make([]string, n)
	floats, rng := make([]float64, n), rand.New(rand.NewPCG(5, 6))
	for i := range n {
		seq[i], wide[i], high[i] = int64(i), int64(i)<<12, int64(i)<<44
		text[i], floats[i] = fmt.Sprintf("user%d", i), float64(i)/8
	}
	random := make([]uint64, n)
	for i := range random {
		random[i] = rng.Uint64()
	}
	return map[string]column.Column{
		"sequential": column.Of(seq), "multiples of 4096": column.Of(wide),
		"high bits": column.Of(high),
		"text":      column.OfStrings(text), "floats": column.Of(floats), "random": column.Of(random),
	}
}

// The top, bottom and middle bits of hashes are evenly distributed, for all kinds of keys.
func TestUniform(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const n, bins = 200_000, 1024
	for name, c := range keySets(n) {
		for seed := range uint64(3) {
			for _, bits := range []int{0, 20, 54} {
				counts := make([]int, bins)
				for _, h := range hashes(dev, seed, c) {
					counts[hash.Reduce64(h<<bits, bins)]++
				}
				if x := unevenness(counts); x > 6 {
					t.Errorf("%s, seed %d: bits from %d on: %.1f", name, seed, bits, x)
				}
			}
		}
	}
}

// A flipped bit of a key flips each bit of the hash half of the time.
func TestHashAvalanche(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	rng := rand.New(rand.NewPCG(7, 8))
	const n = 4096
	keys, other := make([]uint64, n), make([]uint64, n)
	for bit := range 64 {
		for i := range keys {
			keys[i] = rng.Uint64()
			other[i] = keys[i] ^ 1<<bit
		}
		h, g := hashes(dev, 3, column.Of(keys)), hashes(dev, 3, column.Of(other))
		for out := range 64 {
			flips := 0
			for i := range h {
				flips += int((h[i] ^ g[i]) >> out & 1)
			}
			if share := float64(flips) / n; share < .45 || share > .55 {
				t.Errorf("bit %d of a key flips bit %d in %.2f of hashes", bit, out, share)
			}
		}
	}
}
