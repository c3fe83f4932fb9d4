//go:build linux

package gphash_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
)

// temporary opens the CPU and creates a folder for a pool. A pool that should outlive the process
// at the speed of memory belongs in /dev/shm.
func temporary() (dev device.Device, dir string, done func()) {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	dir, err = os.MkdirTemp("", "weft")
	if err != nil {
		log.Fatal(err)
	}
	return dev, dir, func() {
		dev.Close()
		os.RemoveAll(dir)
	}
}

// An index maps byte strings of one length to byte strings of another, and persists between
// openings of the pool.
func Example() {
	ctx := context.Background()
	dev, dir, done := temporary()
	defer done()
	path := filepath.Join(dir, "capitals")

	x, err := gphash.Create(path, dev, gphash.Options{KeySize: 2, ValueSize: 8, Capacity: 1000, Size: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	inserted, err := x.Put(ctx, []byte("DEFRIT"), []byte("Berlin  Paris   Rome    "))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(inserted, "inserted, durability", x.Durability())
	if err := x.Close(); err != nil {
		log.Fatal(err)
	}

	x, report, err := gphash.Open(ctx, path, dev, gphash.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	values, found := make([]byte, 3*x.ValueSize()), make([]bool, 3)
	hits, err := x.Get(ctx, []byte("ITXXDE"), values, found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Keys, "keys,", hits, "found:", found)
	fmt.Printf("%q\n", values)
	// Output:
	// 3 inserted, durability process
	// 3 keys, 2 found: [true false true]
	// "Rome    \x00\x00\x00\x00\x00\x00\x00\x00Berlin  "
}

// A map of integers is a [weft.Map] that is stored in a file.
func ExampleCreateMap() {
	ctx := context.Background()
	dev, dir, done := temporary()
	defer done()
	path := filepath.Join(dir, "squares")

	m, err := gphash.CreateMap[uint64, float64](path, dev, gphash.Options{Capacity: 1000, Size: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.Put(ctx, []uint64{2, 3, 4}, []float64{4, 9, 16}); err != nil {
		log.Fatal(err)
	}
	if err := m.Close(); err != nil {
		log.Fatal(err)
	}

	// The pool stores the sizes of the types, not the types.
	_, _, err = gphash.OpenMap[uint32, float64](ctx, path, dev, gphash.OpenOptions{})
	fmt.Println(errors.Is(err, weft.ErrFormat))

	m, _, err = gphash.OpenMap[uint64, float64](ctx, path, dev, gphash.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	values, found := make([]float64, 2), make([]bool, 2)
	if _, err := m.Get(ctx, []uint64{3, 5}, values, found); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values, found)
	// Output:
	// true
	// [9 0] [true false]
}

// The changes of a returned call outlive the process, however the process ends. The report counts
// the operations that were left half done and were repaired.
func ExampleReport() {
	ctx := context.Background()
	dev, dir, done := temporary()
	defer done()
	path, killed := filepath.Join(dir, "pool"), filepath.Join(dir, "killed")

	x, err := gphash.Create(path, dev, gphash.Options{KeySize: 8, ValueSize: 8, Capacity: 1000, Size: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	var keys []byte
	for i := range uint64(100) {
		keys = binary.BigEndian.AppendUint64(keys, i)
	}
	if _, err := x.Put(ctx, keys, bytes.Repeat([]byte("abcdefgh"), 100)); err != nil {
		log.Fatal(err)
	}
	if _, err := x.Delete(ctx, keys[:10*8], nil); err != nil {
		log.Fatal(err)
	}

	// A copy of the file at this moment is what kill -9 would leave.
	content, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(killed, content, 0o600); err != nil {
		log.Fatal(err)
	}
	y, report, err := gphash.Open(ctx, killed, dev, gphash.OpenOptions{Verify: true})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()
	fmt.Println(report.Keys, "keys,", report.Unfinished, "unfinished,", report.Tombs, "slots of deleted keys,", report.Damaged, "damaged")
	// Output:
	// 90 keys, 0 unfinished, 10 slots of deleted keys, 0 damaged
}

// Readers share a pool and leave it unchanged.
func ExampleOpenOptions_readOnly() {
	ctx := context.Background()
	dev, dir, done := temporary()
	defer done()
	path := filepath.Join(dir, "pool")
	x, err := gphash.Create(path, dev, gphash.Options{KeySize: 3, ValueSize: 1, Size: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := x.Put(ctx, []byte("one"), []byte("1")); err != nil {
		log.Fatal(err)
	}
	if err := x.Close(); err != nil {
		log.Fatal(err)
	}

	readers := make([]*gphash.Index, 2)
	for i := range readers {
		if readers[i], _, err = gphash.Open(ctx, path, dev, gphash.OpenOptions{ReadOnly: true}); err != nil {
			log.Fatal(err)
		}
		defer readers[i].Close()
	}
	for key, value := range readers[1].All(ctx) {
		fmt.Printf("%s: %s\n", key, value)
	}
	_, err = readers[0].Put(ctx, []byte("two"), []byte("2"))
	fmt.Println(errors.Is(err, gphash.ErrReadOnly))
	_, _, err = gphash.Open(ctx, path, dev, gphash.OpenOptions{})
	fmt.Println(errors.Is(err, gphash.ErrLocked))
	// Output:
	// one: 1
	// true
	// true
}
