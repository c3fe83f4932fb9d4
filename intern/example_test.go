package intern_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/intern"
)

// Words become numbers, and numbers words again.
func Example() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := intern.New(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()

	ids := make([]uint32, 5)
	added, err := t.Strings(ctx, []string{"the", "cat", "the", "dog", "cat"}, ids)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(added, "new:", ids)

	found := make([]bool, 2)
	hits, err := t.FindStrings(ctx, []string{"dog", "owl"}, ids[:2], found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hits, "found:", ids[:2], found)
	for id := range t.Len() {
		fmt.Printf("%d %s\n", id, t.At(uint32(id)))
	}
	// Output:
	// 3 new: [0 1 0 2 1]
	// 1 found: [2 0] [true false]
	// 0 the
	// 1 cat
	// 2 dog
}

// Rows of several columns are keys, too; null is a value of its own.
func ExampleTable_Rows() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := intern.New(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()

	city := column.OfStrings([]string{"Bern", "Rome", "Bern", "Bern"})
	year := column.Of([]int32{2024, 2024, 2025, 2024}).WithValid(column.OfBools([]bool{true, false, true, true}))
	ids := make([]uint32, 4)
	if _, err := t.Rows(ctx, []column.Column{city, year}, ids); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	keys := t.Columns(0, t.Len())
	for id := range t.Len() {
		fmt.Println(id, keys[0].Any(id), keys[1].Any(id))
	}
	// Output:
	// [0 1 2 0]
	// 0 Bern 2024
	// 1 Rome <nil>
	// 2 Bern 2025
}

// A table with bounded memory stops at the bound, and returns the number of rows done.
func ExampleOptions() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := intern.New(dev, &intern.Options{MaxBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()

	lines := make([]string, 100_000)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of many", i)
	}
	_, err = t.Strings(ctx, lines, make([]uint32, len(lines)))
	var stopped *weft.PartialError
	fmt.Println(errors.Is(err, weft.ErrFull), errors.As(err, &stopped) && stopped.Done == t.Len())
	// Output: true true
}

// A saved table has the same ids when it is loaded.
func ExampleLoad() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := intern.New(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	if _, err := t.Strings(ctx, []string{"a", "b"}, make([]uint32, 2)); err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := t.Save(ctx, &file); err != nil {
		log.Fatal(err)
	}

	loaded, err := intern.Load(ctx, dev, &file, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer loaded.Close()
	ids := make([]uint32, 2)
	added, err := loaded.Strings(ctx, []string{"b", "c"}, ids)
	fmt.Println(added, ids, err)
	// Output: 1 [1 2] <nil>
}
