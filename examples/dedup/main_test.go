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

func Example_dedup() {
	if err := dedup(context.Background(), strings.NewReader("7 7 3\n18446744073709551615 7 3 9 18446744073709551615\n"), os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 7
	// 3
	// 18446744073709551615
	// 9
}

// Ids that repeat in a later batch are recognized.
func TestBatches(t *testing.T) {
	var in, out, want bytes.Buffer
	for i := range 3 * batch {
		fmt.Fprintln(&in, i%(batch+1))
	}
	for i := range batch + 1 {
		fmt.Fprintln(&want, i)
	}
	if err := dedup(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes, want %d", out.Len(), want.Len())
	}
}

func TestNoNumber(t *testing.T) {
	if err := dedup(t.Context(), strings.NewReader("1 two"), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("error is %v", err)
	}
}
