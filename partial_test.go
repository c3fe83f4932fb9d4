package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
)

// A map of fixed size overflows. The program copies its pairs to a larger map and runs there the
// operations that failed or were not tried.
func ExamplePartialError() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dev, err := cpu.Open(nil)
	check(err)
	defer dev.Close()
	small, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1000, Fixed: true})
	check(err)
	defer small.Close()
	keys, vals := make([]uint64, 4000), make([]uint64, 4000)
	for i := range keys {
		keys[i], vals[i] = uint64(i), uint64(2*i)
	}

	_, err = small.Put(ctx, keys, vals)
	var partial *weft.PartialError
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &partial) {
		log.Fatal("there is room for all: ", err)
	}
	fmt.Println(partial.Done, "tried,", partial.Failed == len(partial.Rows))

	large, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: len(keys)})
	check(err)
	defer large.Close()
	for page, err := range small.Pages(ctx) {
		check(err)
		_, err = large.Put(ctx, page.Keys, page.Vals)
		check(err)
	}
	var restKeys, restVals []uint64
	for _, row := range partial.Rows {
		restKeys, restVals = append(restKeys, keys[row]), append(restVals, vals[row])
	}
	restKeys, restVals = append(restKeys, keys[partial.Done:]...), append(restVals, vals[partial.Done:]...)
	inserted, err := large.Put(ctx, restKeys, restVals)
	check(err)
	fmt.Println(inserted == len(restKeys), large.Len())
	// Output:
	// 4000 tried, true
	// true 4000
}

// A mixed batch runs in chunks, but the rows in its error must be indexes into the whole batch.
func TestPartialErrorOfChunks(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1000, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ops := make([]weft.Op[uint64, uint64], 1<<19+1<<18) // more than one chunk
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: uint64(i), Value: uint64(i)}
	}
	ops = append(ops, ops...)
	res := make([]weft.Result[uint64], len(ops))
	err = m.Apply(t.Context(), ops, res)
	var p *weft.PartialError
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != len(ops) || p.Failed != len(p.Rows) {
		t.Fatal(err)
	}
	keys, found := make([]uint64, len(ops)), make([]bool, len(ops))
	for i, o := range ops {
		keys[i] = o.Key
	}
	if _, err := m.Contains(t.Context(), keys, found); err != nil {
		t.Fatal(err)
	}
	var absent []int
	for i, there := range found {
		if !there {
			absent = append(absent, i)
		}
	}
	if !slices.Equal(p.Rows, absent) {
		t.Errorf("%d rows, %d keys are absent: %v", len(p.Rows), len(absent), err)
	}
}
