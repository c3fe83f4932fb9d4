package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
)

func Example_answer() {
	if err := answer(context.Background(), strings.NewReader(`
10 1.5
30 2
20 4
10 20 ?
20 5
10 20 ?
0 9 ?
15 drop
-100 99 ?
`[1:]), os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 10 to 20: 2, from 1.5 to 4, 2.75 on average
	// 10 to 20: 2, from 1.5 to 5, 3.25 on average
	// 0 to 9: nothing
	// 1 dropped
	// -100 to 99: 2, from 2 to 5, 3.5 on average
}

// Questions see the lines before them, and none after, in batches of any size.
func TestManyLines(t *testing.T) {
	var in, out, want bytes.Buffer
	for i := range 2*maxBatch + 2 {
		fmt.Fprintf(&in, "%d 1\n", 2*maxBatch-i)
		if i%maxBatch == maxBatch/2 {
			fmt.Fprintf(&in, "0 %d ?\n", 2*maxBatch)
			fmt.Fprintf(&want, "0 to %d: %d, from 1 to 1, 1 on average\n", 2*maxBatch, i+1)
		}
	}
	if err := answer(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("%s\nwant\n%s", &out, &want)
	}
}

// An invalid line ends the program, after the answers to earlier ones.
func TestBadLines(t *testing.T) {
	for _, line := range []string{"x 1", "1 x", "1", "1 2 3", "1 x ?", "9223372036854775808 1"} {
		var out bytes.Buffer
		err := answer(t.Context(), strings.NewReader("1 1\n0 9 ?\n"+line+"\n"), &out)
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || out.String() != "0 to 9: 1, from 1 to 1, 1 on average\n" {
			t.Errorf("%q: error is %v, behind %q", line, err, &out)
		}
	}
}
