package arrow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft/column"
)

// ipcFiles returns two batches as a file and as a stream.
func ipcFiles(t testing.TB, opts ...ipc.Option) (file, stream []byte) {
	meta := arrow.NewMetadata([]string{"made"}, []string{"here"})
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: meta}, {Name: "b", Type: dictionary}}, &meta)
	var f, s bytes.Buffer
	opts = append(opts, ipc.WithSchema(schema))
	fw, err := ipc.NewFileWriter(&f, opts...)
	if err != nil {
		t.Fatal(err)
	}
	sw := ipc.NewWriter(&s, opts...)
	for range 2 {
		arrays := []arrow.Array{fromJSON(t, schema.Field(0).Type, "[1,null,3]"), fromJSON(t, dictionary, `["x","y","x"]`)}
		rec := array.NewRecordBatch(schema, arrays, -1)
		if err := errors.Join(fw.Write(rec), sw.Write(rec)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(fw.Close(), sw.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Bytes(), s.Bytes()
}

// readIPC returns all values of a file, batch by batch.
func readIPC(b []byte) (all []string, err error) {
	r, err := OpenIPC(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	for {
		rec, err := NextBatch(r)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		columns, err := Columns(rec)
		if err != nil {
			return all, err
		}
		for _, c := range columns {
			all = append(all, fmt.Sprint(anys(c)))
		}
	}
}

func TestIPC(t *testing.T) {
	want := []string{"[1 <nil> 3]", "[x y x]", "[1 <nil> 3]", "[x y x]"}
	for _, opts := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}} {
		file, stream := ipcFiles(t, opts...)
		for name, b := range map[string][]byte{"file": file, "stream": stream, "stream without an end": stream[:len(stream)-8]} {
			if got, err := readIPC(b); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		for name, b := range map[string][]byte{"nothing": nil, "cut stream": stream[:len(stream)-30], "cut file": file[:len(file)-1], "no footer": []byte("ARROW1\x00\x00")} {
			if got, err := readIPC(b); err == nil {
				t.Errorf("%s is %v", name, got)
			}
		}
	}
}

// A damaged file is an error or has other values. Nothing panics, and no damaged length exhausts
// memory.
func TestDamagedIPC(t *testing.T) {
	file, stream := ipcFiles(t)
	packed, _ := ipcFiles(t, ipc.WithZstd())
	for i, whole := range [][]byte{file, stream, packed} {
		rng := rand.New(rand.NewPCG(7, 8))
		failed := 0
		for range 1500 {
			b := slices.Clone(whole)
			for range 1 + rng.IntN(3) {
				b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
			}
			if _, err := readIPC(b); err != nil {
				failed++
			}
		}
		if failed < 100 {
			t.Errorf("file %d: %d damages are errors", i, failed)
		}
	}
}

func FuzzIPC(f *testing.F) {
	file, stream := ipcFiles(f)
	f.Add(file)
	f.Add(stream)
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = readIPC(b) })
}

func ExampleOpenIPC() {
	ages, _ := Array(column.Of([]int64{31, 27}), nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "age", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(array.NewRecordBatch(schema, []arrow.Array{ages}, -1)), w.Close()); err != nil {
		panic(err)
	}

	r, err := OpenIPC(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		panic(err)
	}
	for rec, err := NextBatch(r); err != io.EOF; rec, err = NextBatch(r) {
		if err != nil {
			panic(err)
		}
		columns, err := Columns(rec)
		if err != nil {
			panic(err)
		}
		fmt.Println(column.Values[int64](columns[0]))
	}
	// Output: [31 27]
}
