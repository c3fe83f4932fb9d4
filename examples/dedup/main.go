// Dedup passes on ids that occur for the first time. It reads unsigned numbers from standard input,
// separated by white space, and prints each number once, in the order of first occurrence:
//
//	printf '7 7 3 7 3 9' | go run ./examples/dedup
//
// The set grows by itself. Memory use is proportional to the distinct ids.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

// batch is the number of ids that are looked up together. A GPU needs large batches.
const batch = 1 << 18

func main() {
	log.SetFlags(0)
	if err := dedup(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal("dedup: ", err)
	}
}

func dedup(ctx context.Context, r io.Reader, w io.Writer) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	seen, err := linear.NewSet[uint64](dev, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seen.Close()) }()

	words := bufio.NewScanner(r)
	words.Split(bufio.ScanWords)
	out := bufio.NewWriter(w)
	ids, added := make([]uint64, 0, batch), make([]bool, batch)
	for more := true; more; {
		if more = words.Scan(); more {
			id, err := strconv.ParseUint(words.Text(), 10, 64)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if more && len(ids) < batch {
			continue
		}
		// If an id is twice in the batch, Add reports its first occurrence.
		if _, err := seen.Add(ctx, ids, added[:len(ids)]); err != nil {
			return err
		}
		for i, id := range ids {
			if added[i] {
				fmt.Fprintln(out, id)
			}
		}
		ids = ids[:0]
	}
	return errors.Join(words.Err(), out.Flush())
}
