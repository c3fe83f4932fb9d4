package parquet_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

func Example() {
	var file bytes.Buffer
	w, err := parquet.NewWriter(&file, []parquet.Field{
		{Name: "name", Type: parquet.Type{Kind: parquet.Text, Column: column.Bytes}},
		{Name: "age", Type: parquet.Type{Kind: parquet.Number, Column: column.Int32}},
	}, "example")
	check(err)
	ages := column.Of([]int32{31, 0, 27}).WithValid(column.OfBools([]bool{true, false, true}))
	check(w.Write([]column.Column{column.OfStrings([]string{"Ada", "Ben", "Cy"}), ages}))
	check(w.Close())

	f, err := parquet.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	check(err)
	age := slices.IndexFunc(f.Fields(), func(f parquet.Field) bool { return f.Name == "age" })
	for batch, err := range f.Columns(context.Background(), age) { // name is not read
		check(err)
		fmt.Println(f.Fields()[age].Type, batch[0].Any(0), batch[0].Any(1), batch[0].Any(2))
	}
	// Output: int32 31 <nil> 27
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
