// Timerange answers questions about ranges of time while measurements arrive. It reads lines. A
// time and a value are a measurement. "FROM TO ?" requests those from FROM to TO, inclusive. "UNTIL
// drop" removes all up to a time. Times are whole numbers, such as seconds, in any order. A
// repeated time replaces the value:
//
//	printf '10 1.5\n30 2\n20 4\n10 20 ?\n15 drop\n0 99 ?\n' | go run ./examples/timerange
//
// Lines are gathered into batches. A question sees all lines before it, and consecutive questions
// form one batch.
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
	"strings"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/ordered"
)

func main() {
	log.SetFlags(0)
	if err := answer(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal("timerange: ", err)
	}
}

// maxBatch is the maximum number of lines of a batch.
const maxBatch = 1 << 16

// index holds measurements by time, and lines that have been read but not run.
type index struct {
	*ordered.Map[int64, float64]
	out  *bufio.Writer
	rows weft.PairRows[int64, float64]

	times    []int64 // of measurements to store
	values   []float64
	from, to []int64 // of questions to answer
}

func answer(ctx context.Context, r io.Reader, w io.Writer) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	m, err := ordered.New[int64, float64](dev, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	x := index{Map: m, out: bufio.NewWriter(w)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if err := x.line(ctx, strings.Fields(lines.Text())); err != nil {
			return errors.Join(fmt.Errorf("line %d: %w", n, err), x.ask(ctx), x.out.Flush())
		}
	}
	return errors.Join(lines.Err(), x.put(ctx), x.ask(ctx), x.out.Flush())
}

// line runs what must precede a line, and adds the line to a batch.
func (x *index) line(ctx context.Context, words []string) error {
	question := len(words) == 3 && words[2] == "?"
	drop := len(words) == 2 && words[1] == "drop"
	if !question && len(words) != 2 {
		return fmt.Errorf("%q is neither TIME VALUE nor FROM TO ? nor UNTIL drop", strings.Join(words, " "))
	}
	first, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return err
	}
	switch {
	case question:
		last, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return err
		}
		x.from, x.to = append(x.from, first), append(x.to, last)
		if err := x.put(ctx); err != nil || len(x.from) < maxBatch {
			return err
		}
		return x.ask(ctx)
	case drop:
		if err := errors.Join(x.ask(ctx), x.put(ctx)); err != nil {
			return err
		}
		n, err := x.DeleteRange(ctx, []int64{-1 << 63}, []int64{first}, nil)
		fmt.Fprintf(x.out, "%d dropped\n", n)
		return err
	}
	value, err := strconv.ParseFloat(words[1], 64)
	if err != nil {
		return err
	}
	if err := x.ask(ctx); err != nil {
		return err
	}
	x.times, x.values = append(x.times, first), append(x.values, value)
	if len(x.times) < maxBatch {
		return nil
	}
	return x.put(ctx)
}

// put stores the gathered measurements.
func (x *index) put(ctx context.Context) error {
	_, err := x.Put(ctx, x.times, x.values)
	x.times, x.values = x.times[:0], x.values[:0]
	return err
}

// ask answers the gathered questions: the number of measurements, and their minimum, mean and
// maximum.
func (x *index) ask(ctx context.Context) error {
	if len(x.from) == 0 {
		return nil
	}
	x.rows.Reset()
	err := x.Range(ctx, x.from, x.to, 0, &x.rows)
	for i := range x.rows.Len() {
		_, values := x.rows.Row(i)
		if len(values) == 0 {
			fmt.Fprintf(x.out, "%d to %d: nothing\n", x.from[i], x.to[i])
			continue
		}
		least, sum, largest := values[0], 0., values[0]
		for _, v := range values {
			least, sum, largest = min(least, v), sum+v, max(largest, v)
		}
		fmt.Fprintf(x.out, "%d to %d: %d, from %g to %g, %g on average\n", x.from[i], x.to[i], len(values), least, largest, sum/float64(len(values)))
	}
	x.from, x.to = x.from[:0], x.to[:0]
	return err
}
