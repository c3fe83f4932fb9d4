// Device counts how many of a million keys are in a map, with batches that stay on the device from
// one call to the next. Nothing is copied between them, and the host waits only for the results. On
// the CPU the same program works on host memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

const n = 1_000_000

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal("device: ", err)
	}
}

func run(ctx context.Context) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	m, err := linear.New[uint32, uint32](dev, &linear.Options{Capacity: n})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	keys, err := device.Make[uint32](dev, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.Free()) }()
	vals, err := device.Make[uint32](dev, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vals.Free()) }()
	found, err := device.Make[bool](dev, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Free()) }()
	// The stream comes last: deferred calls run in reverse order, and closing the stream waits for
	// the work that uses the slices.
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	// Input: the numbers below n, each as key and value.
	host := make([]uint32, n)
	for i := range host {
		host[i] = uint32(i)
	}
	if err := errors.Join(keys.CopyFrom(s, host), s.Copy(vals.Ptr(), keys.Ptr(), 4*n)); err != nil {
		return err
	}
	// On the device: store all, delete the first quarter, look up all. A stream runs its work in
	// the order of submission.
	err = errors.Join(
		m.PutOn(s, keys, vals),
		m.DeleteOn(s, keys.Sub(0, n/4), device.Slice[bool]{}),
		m.GetOn(s, keys, vals, found),
	)
	if err != nil {
		return err
	}
	// Copy the flags out. CopyTo waits for all previous work.
	flags := make([]bool, n)
	if err := found.CopyTo(ctx, s, flags); err != nil {
		return err
	}
	hits := 0
	for _, f := range flags {
		if f {
			hits++
		}
	}
	fmt.Println(hits, "of", n, "keys found,", m.Len(), "stored")
	return nil
}
