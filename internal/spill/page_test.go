package spill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// aligned reports whether the values of a column have the alignment of their type.
func aligned(c column.Column) bool {
	small, large, _ := c.Offsets()
	codes, _ := c.Codes()
	size := max(c.Type().Size(), 1)
	for at, size := range map[unsafe.Pointer]int{
		unsafe.Pointer(unsafe.SliceData(c.Raw())): size,
		unsafe.Pointer(unsafe.SliceData(small)):   4,
		unsafe.Pointer(unsafe.SliceData(large)):   8,
		unsafe.Pointer(unsafe.SliceData(codes)):   4,
	} {
		if at != nil && uintptr(at)%uintptr(size) != 0 {
			return false
		}
	}
	return true
}

// equalValues returns an error if the values of two columns differ in any bit.
func equalValues(a, b column.Column) error {
	if a.Type() != b.Type() || a.Len() != b.Len() {
		return fmt.Errorf("%d of %v and %d of %v", a.Len(), a.Type(), b.Len(), b.Type())
	}
	for i := range a.Len() {
		if a.Null(i) || b.Null(i) {
			if a.Null(i) != b.Null(i) {
				return fmt.Errorf("value %d: null %v and %v", i, a.Null(i), b.Null(i))
			}
			continue
		}
		var x, y []byte
		if a.Type() == column.Bytes {
			x, y = a.Bytes(i), b.Bytes(i)
		} else {
			size := a.Type().Size()
			x, y = a.Raw()[i*size:][:size], b.Raw()[i*size:][:size]
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("value %d of %v: %x and %x", i, a.Type(), x, y)
		}
	}
	return nil
}

func equalColumns(t testing.TB, got, want []column.Column) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d columns, want %d", len(got), len(want))
	}
	for i := range want {
		if !aligned(got[i]) {
			t.Fatalf("column %d is not aligned", i)
		}
		if err := equalValues(got[i], want[i]); err != nil {
			t.Fatalf("column %d: %v", i, err)
		}
	}
}

// numbers draws n values, from constants to values with all bits.
func numbers[T number](r *rand.Rand, n int) []T {
	base, shift := T(r.Uint64()), r.IntN(66)
	if r.IntN(4) == 0 {
		base = 0
	}
	values := make([]T, n)
	for i := range values {
		values[i] = base
		if shift < 64 {
			values[i] += T(r.Uint64() >> shift)
		}
	}
	return values
}

// items draws n byte strings from a set.
func items(r *rand.Rand, n int) []string {
	different := make([]string, 1+r.IntN(1+n))
	longest := []int{0, 1, 10, 300, 70_000}[r.IntN(20)%5]
	if n > 100 {
		longest = min(longest, 300)
	}
	for i := range different {
		b := make([]byte, r.IntN(longest+1))
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		different[i] = string(b)
	}
	values := make([]string, n)
	for i := range values {
		values[i] = different[r.IntN(len(different))]
	}
	return values
}

// forms holds functions that make a column, for all types and all forms of byte strings.
var forms = []func(r *rand.Rand, n int) (column.Column, error){
	ofNumbers[int8],
	ofNumbers[int16],
	ofNumbers[int32],
	ofNumbers[int64],
	ofNumbers[uint8],
	ofNumbers[uint16],
	ofNumbers[uint32],
	ofNumbers[uint64],
	func(r *rand.Rand, n int) (column.Column, error) {
		v := numbers[uint32](r, n) // any bits: NaN payloads, infinities, -0
		return column.Of(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), n)), nil
	},
	func(r *rand.Rand, n int) (column.Column, error) {
		v := numbers[uint64](r, n)
		return column.Of(unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(v))), n)), nil
	},
	func(r *rand.Rand, n int) (column.Column, error) {
		v := make([]bool, n)
		for i := range v {
			v[i] = r.IntN(2) == 0
		}
		return column.Of(v), nil
	},
	func(r *rand.Rand, n int) (column.Column, error) { return column.OfStrings(items(r, n)), nil },
	ofOffsets[int32], ofOffsets[int64],
	ofWidth,
	func(r *rand.Rand, n int) (column.Column, error) {
		dict := column.OfStrings(items(r, 1+r.IntN(1+20*n)))
		switch r.IntN(3) {
		case 0:
			dict, _ = ofOffsets[int32](r, 1+r.IntN(300))
		case 1:
			dict, _ = ofWidth(r, 1+r.IntN(300))
		}
		codes, nCodes := make([]uint32, n), 1+r.IntN(dict.Len())
		for i := range codes {
			codes[i] = uint32(r.IntN(nCodes))
		}
		return column.OfCodes(codes, dict)
	},
}

func ofNumbers[T number](r *rand.Rand, n int) (column.Column, error) {
	return column.Of(numbers[T](r, n)), nil
}

func ofOffsets[O int32 | int64](r *rand.Rand, n int) (column.Column, error) {
	data := []byte("not of a value")
	offsets := []O{O(len(data))}
	for _, s := range items(r, n) {
		data = append(data, s...)
		offsets = append(offsets, O(len(data)))
	}
	return column.OfOffsets(offsets, append(data, "nor this"...))
}

func ofWidth(r *rand.Rand, n int) (column.Column, error) {
	width := 1 + r.IntN(20)
	data := make([]byte, n*width)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return column.OfWidth(width, data)
}

// draw makes a column of n rows: a slice of a longer one, with a bitmap at an offset.
func draw(t testing.TB, r *rand.Rand, form, n int) column.Column {
	before, after := r.IntN(5)*r.IntN(20), r.IntN(10)
	c, err := forms[form](r, before+n+after)
	if err != nil {
		t.Fatal(err)
	}
	if share := []int{0, 0, 1, 50, 98, 100}[r.IntN(6)]; share > 0 {
		offset := r.IntN(20)
		bits := make([]byte, (offset+c.Len()+7)/8+r.IntN(2))
		for i := range 8 * len(bits) {
			if r.IntN(100) >= share {
				bits[i/8] |= 1 << (i % 8)
			}
		}
		c = c.WithValid(column.OfBits(bits, offset, c.Len()))
	}
	return c.Slice(before, before+n)
}

// Random columns of all types and forms survive encoding, in pages at every alignment.
func TestPageProperty(t *testing.T) {
	var reused Decoder
	for seed := range uint64(rounds(400)) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := []int{1, 1 + r.IntN(9), 1 + r.IntN(70), 1 + r.IntN(1000)}[r.IntN(4)]
		if seed%300 == 299 {
			n = 70_000
		}
		var columns []column.Column
		for range 1 + r.IntN(5) {
			columns = append(columns, draw(t, r, r.IntN(len(forms)), n))
		}
		prefix := make([]byte, r.IntN(9))
		buf := AppendPage(prefix, columns)
		if !bytes.Equal(buf[:len(prefix)], prefix) {
			t.Fatalf("seed %d: bytes before the page changed", seed)
		}
		page := buf[len(prefix):]
		got, err := DecodePage(page)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Run("", func(t *testing.T) { equalColumns(t, got, columns) })
		got, err = reused.Decode(page)
		check(t, err)
		t.Run("", func(t *testing.T) { equalColumns(t, got, columns) })
		reencoded, err := DecodePage(AppendPage(nil, got))
		if err != nil || t.Failed() {
			t.Fatalf("seed %d: %v", seed, err)
		}
		equalColumns(t, reencoded, columns)
		if n < 100 { // any damage is found
			bad := slices.Clone(page)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			if _, err := DecodePage(bad); !errors.Is(err, op.ErrFormat) {
				t.Fatalf("seed %d: damage is no error: %v", seed, err)
			}
		}
	}
}

// golden returns columns that together have every encoding in every width.
func golden(t testing.TB) []column.Column {
	t.Helper()
	offsets, err := column.OfOffsets([]int32{2, 2, 5, 6, 10}, []byte("..abcdefgh"))
	check(t, err)
	wide, err := column.OfOffsets([]int64{0, 300, 300, 301, 301}, bytes.Repeat([]byte("w"), 301))
	check(t, err)
	fixed, err := column.OfWidth(3, []byte("abcdefghijkl"))
	check(t, err)
	dict := column.OfStrings([]string{
		"never used", "a long value of the dictionary", "another long value", "nor this",
	})
	codes, err := column.OfCodes([]uint32{2, 1, 2, 2}, dict)
	check(t, err)
	one, err := column.OfCodes([]uint32{1, 1, 1, 1}, dict)
	check(t, err)
	valid := column.OfBits([]byte{0b0101_1000}, 3, 4) // valid, valid, null, valid
	minus, nan := math.Copysign(0, -1), math.Float64frombits(0x7ff8_0000_dead_beef)
	const low, high = math.MinInt64, uint64(math.MaxUint64)
	return []column.Column{
		column.Of([]int8{-128, 127, 0, 1}),
		column.Of([]int16{-5, -5, -5, -5}),
		column.Of([]int16{-5, 250, 0, 1}),
		column.Of([]int32{-70_000, -4465, -70_000, -4465}),
		column.Of([]int32{math.MinInt32, math.MaxInt32, 0, 1}),
		column.Of([]int64{low, low + 1, low, low}),
		column.Of([]int64{1e12, 1e12 + 256, 1e12, 1e12}),
		column.Of([]int64{-1e12, -1e12 + 1<<31, 0, -1e12}).WithValid(valid),
		column.Of([]int64{low, math.MaxInt64, 0, 1}),
		column.Of([]uint8{1, 2, 3, 4}).WithValid(valid),
		column.Of([]uint16{65535, 65534, 0, 65533}).WithValid(valid),
		column.Of([]uint32{1 << 31, 1<<31 + 65536, 1 << 31, 1 << 31}),
		column.Of([]uint64{high, high, high, high}),
		column.Of([]float32{1, -2.5, float32(minus), float32(math.Inf(1))}),
		column.Of([]float64{0.5, 0.5, 0.5, 0.5}),
		column.Of([]float64{nan, minus, 0, 1}),
		column.Of([]bool{true, false, true, true}),
		column.Of([]bool{true, false, true, true}).WithValid(valid),
		offsets, wide, fixed, fixed.WithValid(valid), codes, codes.WithValid(valid), one,
		column.OfStrings([]string{"", "", "", ""}),
		column.OfStrings([]string{"x", "yy", "hidden", ""}).WithValid(valid),
		column.OfStrings([]string{"1", "2", "3", "4"}).WithValid(column.OfBits([]byte{0}, 0, 4)),
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The format never changes, because later versions and other languages read saved pages.
func TestPageGolden(t *testing.T) {
	name := filepath.Join("testdata", "page_v1.bin")
	page := AppendPage(nil, golden(t))
	if os.Getenv("SPILL_GOLDEN") != "" {
		check(t, os.WriteFile(name, page, 0o666))
	}
	want, err := os.ReadFile(name)
	check(t, err)
	if !bytes.Equal(page, want) {
		i := 0
		for i < min(len(page), len(want)) && page[i] == want[i] {
			i++
		}
		t.Errorf("%d bytes, want %d; they differ from %d on", len(page), len(want), i)
	}
	got, err := DecodePage(want)
	check(t, err)
	equalColumns(t, got, golden(t))
	for i, name := range []string{
		"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
		"float32", "float64", "bool", "bytes",
	} {
		if typ := column.Type(i + 1); typ.String() != name {
			t.Errorf("number %d in pages is %v, want %s", i+1, typ, name)
		}
	}
	// A page of two columns, written by hand from the package comment.
	byHand := []byte("WPG\x01" + "-CRC" + "\x60\x00\x00\x00\x00\x00\x00\x00" +
		"\x03\x00\x00\x00" + "\x02\x00\x00\x00" +
		"\x02\x00\x01\x01\x00\x00\x00\x00" + "\xfe\xff\xff\xff\xff\xff\xff\xff" +
		"\x05\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x07\x00\x00\x00\x00\x00" +
		"\x0c\x02\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x03\x00\x00\x00\x00\x00\x00\x00" + "abc\x00\x00\x00\x00\x00")
	le := binary.LittleEndian
	le.PutUint64(byHand[8:], uint64(len(byHand)))
	le.PutUint32(byHand[4:], crc32.Checksum(byHand[8:], seal.Castagnoli))
	same := AppendPage(nil, []column.Column{
		column.Of([]int16{-2, 9, 5}).WithValid(column.OfBits([]byte{5}, 0, 3)),
		column.OfStrings([]string{"a", "b", "c"}),
	})
	if !bytes.Equal(same, byHand) {
		t.Errorf("%x\nwant %x", same, byHand)
	}
}

// Pages are as compact as the package comment says.
func TestPageSizes(t *testing.T) {
	n := 8000
	ints, words := make([]int64, n), make([]string, n)
	for i := range ints {
		ints[i], words[i] = 1e15+int64(i%200), []string{"north", "south-east"}[i%2]
	}
	dict := column.OfStrings(append(words[:2:2], make([]string, 1000)...))
	codes := make([]uint32, n)
	for i := range codes {
		codes[i] = uint32(i % 2)
	}
	coded, err := column.OfCodes(codes, dict)
	check(t, err)
	for _, tt := range []struct {
		name    string
		c       column.Column
		maxSize int
	}{
		{"narrow", column.Of(ints), n + 100},
		{"constant", column.Of(slices.Repeat([]int64{-1}, n)), 100},
		{"bool", column.Of(slices.Repeat([]bool{true}, n)), n/8 + 100},
		{"codes", coded, n + 200},
		{"words", column.OfStrings(words), 9*n + 100},
	} {
		if page := AppendPage(nil, []column.Column{tt.c}); len(page) > tt.maxSize {
			t.Errorf("%s: %d bytes, want %d", tt.name, len(page), tt.maxSize)
		}
	}
}

// reseal sets the length and CRC of a page, so that damage reaches the rest of the decoder.
func reseal(page []byte) []byte {
	page = page[:len(page)&^7]
	if len(page) < pageHeader {
		return page
	}
	copy(page, "WPG\x01")
	binary.LittleEndian.PutUint64(page[8:], uint64(len(page)))
	binary.LittleEndian.PutUint32(page[4:], crc32.Checksum(page[8:], seal.Castagnoli))
	return page
}

// decodeHostile decodes arbitrary bytes, and reads all resulting values.
func decodeHostile(t *testing.T, page []byte) error {
	t.Helper()
	columns, err := DecodePage(page)
	if err != nil {
		if !errors.Is(err, op.ErrFormat) || !strings.Contains(err.Error(), "offset ") {
			t.Fatalf("%v", err)
		}
		return err
	}
	reencoded, err := DecodePage(AppendPage(nil, columns))
	check(t, err)
	equalColumns(t, reencoded, columns)
	return nil
}

// Hostile pages with a valid CRC are errors, and cost memory in proportion to their size.
func TestPageHostile(t *testing.T) {
	good := AppendPage(nil, golden(t))
	unbacked := AppendPage(nil, []column.Column{
		column.Of(slices.Repeat([]int64{5}, 8000)), column.OfStrings(make([]string, 8000)),
	})
	var before, after runtime.MemStats
	for seed := range uint64(rounds(3000)) {
		r := rand.New(rand.NewPCG(seed, 2))
		page := slices.Clone([][]byte{good, unbacked}[r.IntN(2)])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(page) &^ 7)
			switch r.IntN(4) {
			case 0:
				page[at] = byte(r.Uint32())
			case 1:
				binary.LittleEndian.PutUint64(page[at&^7:], r.Uint64()>>r.IntN(64))
			case 2:
				at &^= 3
				binary.LittleEndian.PutUint32(page[at:], math.MaxUint32>>r.IntN(32))
			default:
				page = page[:max(at&^7, pageHeader)]
			}
		}
		page = reseal(page)
		runtime.ReadMemStats(&before)
		_, err := DecodePage(page)
		runtime.ReadMemStats(&after)
		cost := after.TotalAlloc - before.TotalAlloc
		if cost > uint64(32*len(page)+unbackedBytes+32<<10) {
			t.Fatalf("seed %d: %d bytes for a page of %d: %v", seed, cost, len(page), err)
		}
		if err == nil && len(page) > 4000 {
			continue
		}
		decodeHostile(t, page)
	}
	for name, page := range map[string][]byte{
		"rows that take no bytes": {16: 0xff, 17: 0xff, 18: 0xff, 19: 0x7f, 20: 1, 24: 4, 39: 0},
		"columns":                 {16: 1, 20: 0xff, 21: 0xff, 22: 0xff, 23: 0xff, 39: 0},
		"no type":                 {16: 1, 20: 1, 39: 0}, "empty": {}, "short": {7: 0},
	} {
		if err := decodeHostile(t, reseal(page)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// For each check of the decoder, a page fails only that check. The error has its offset.
func TestPageChecks(t *testing.T) {
	ints := column.Of([]int64{1, 2})
	texts := column.OfStrings([]string{"abc", "d"})
	codes, err := column.OfCodes([]uint32{1, 0, 0, 0}, column.OfStrings([]string{
		"a value of some length", "another value of some length",
	}))
	check(t, err)
	const one, first = pageHeader, pageHeader + columnHeader // header and values of a column
	for _, tt := range []struct {
		name   string
		c      column.Column
		at     int
		to     byte
		offset int
	}{
		{"no rows", ints, 16, 0, 16}, {"no columns", ints, 20, 0, 20},
		{"a second column", ints, 20, 2, first + 8},
		{"a column too many", texts, 20, 1 << 7, 20},
		{"type", ints, one, 13, one}, {"no type", ints, one, 0, one},
		{"encoding", ints, one + 1, encBytes, one + 1},
		{"encoding of bytes", texts, one + 1, encFrame, one + 1},
		{"width 3", ints, one + 2, 3, one + 2}, {"width 16", ints, one + 2, 16, one + 2},
		{"width beyond the end", ints, one + 2, 8, one + 8},
		{"width of codes", codes, one + 2, 8, one + 2},
		{"flags", ints, one + 3, 2, one + 3}, {"dictionary", ints, one + 4, 1, one + 4},
		{"no dictionary", codes, one + 4, 0, one + 4},
		{"large dictionary", codes, one + 4, 5, one + 4},
		{"minimum of codes", codes, one + 8, 1, one + 8},
		{"minimum of int8", column.Of([]int8{3, 3}), one + 9, 1, one + 8},
		{"a code", codes, first, 2, first},
		{"a column of codes", codes, first + 8 + 1, encDict, first + 8 + 1},
		{"a dictionary with nulls", codes, first + 8 + 3, 1, first + 8 + 3},
		{"lengths too large", texts, first, 3, first}, {"too small", texts, first, 1, first},
		{"lengths of no sum", texts, one + 15, 0xff, first},
		{"lengths that wrap", texts, one + 15, 0x80, first},
		{"data too long", texts, first + 8, 100, first + 16},
		{"widths", column.OfStrings([]string{"a", "b"}), one + 8, 2, one + 8},
		{"rest", texts, 20, 1, 0},
	} {
		page := AppendPage(nil, []column.Column{tt.c})
		page[tt.at] = tt.to
		if tt.name == "rest" {
			page = append(page, make([]byte, 8)...)
			tt.offset = len(page) - 8
		}
		err := decodeHostile(t, reseal(page))
		want := fmt.Sprintf("offset %d:", tt.offset)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", tt.name, err, want)
		}
	}
	// Only the first constant columns take no bytes.
	var constants []column.Column
	for range 30 {
		constants = append(constants, column.Of(slices.Repeat([]int64{7}, 4000)))
		constants = append(constants, column.OfStrings(make([]string, 4000)))
	}
	columns, err := DecodePage(AppendPage(nil, constants))
	check(t, err)
	equalColumns(t, columns, constants)
}

func FuzzDecodePage(f *testing.F) {
	f.Add(AppendPage(nil, golden(f)), true) // more seeds in testdata
	f.Fuzz(func(t *testing.T, page []byte, raw bool) {
		if !raw {
			page = reseal(page)
		}
		_ = decodeHostile(t, page)
	})
}

// Pages without columns, without rows, or with columns of different lengths panic.
func TestPagePanics(t *testing.T) {
	for name, columns := range map[string][]column.Column{
		"no columns": {}, "no rows": {column.Of([]int64{})}, "zero": {{}},
		"lengths": {column.Of([]int64{1}), column.Of([]int64{1, 2})},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			AppendPage(nil, columns)
		}()
	}
}

// Rates count the bytes of the columns, not of the page.
func BenchmarkPage(b *testing.B) {
	const n = 1 << 16
	r := rand.New(rand.NewPCG(1, 1))
	ofWidth := func(bits int) column.Column {
		v := make([]int64, n)
		for i := range v {
			v[i] = int64(r.Uint64() >> (64 - bits))
		}
		return column.Of(v)
	}
	bools, words := make([]bool, n), make([]string, n)
	valid := make([]byte, n/8)
	for i := range bools {
		bools[i], words[i] = r.IntN(2) == 0, fmt.Sprintf("word %d", r.IntN(1e6))
		if r.IntN(10) > 0 {
			valid[i/8] |= 1 << (i % 8)
		}
	}
	for _, c := range []struct {
		name  string
		c     column.Column
		bytes int
	}{
		{"int64in1", ofWidth(7), 8 * n}, {"int64in2", ofWidth(15), 8 * n},
		{"int64in4", ofWidth(30), 8 * n}, {"int64in8", ofWidth(64), 8 * n},
		{"nulls", ofWidth(30).WithValid(column.OfBits(valid, 0, n)), 8 * n},
		{"bool", column.Of(bools), n}, {"strings", column.OfStrings(words), 10 * n},
	} {
		columns := []column.Column{c.c}
		page := AppendPage(nil, columns)
		b.Run("append/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(c.bytes))
			for b.Loop() {
				page = AppendPage(page[:0], columns)
			}
		})
		b.Run("decoder/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(c.bytes))
			var d Decoder
			for b.Loop() {
				if _, err := d.Decode(page); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(c.bytes))
			for b.Loop() {
				if _, err := DecodePage(page); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
