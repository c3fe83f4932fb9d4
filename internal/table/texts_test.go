package table

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A column has the added values, whether few or many repeat, one is long, or rows are dropped. It
// consists of codes while the dictionary has space.
func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		words  int
		long   bool
		blocks []bool // whether each block has codes
	}{
		{"few", 10, false, []bool{true, true}},
		{"as many as there is space for", maxWords, false, []bool{true, true}},
		{"more", maxWords + 1, false, []bool{false, false}},
		{"one long", 10, true, []bool{false, false}},
		{"none", 0, false, []bool{true, true}},
	} {
		var c texts
		rng := rand.New(rand.NewPCG(uint64(tt.words), 9))
		for block, codes := range tt.blocks {
			const rows = 4 * maxWords
			c.reset(rows)
			var want []any
			for i := range rows {
				if i > 0 && rng.IntN(9) == 0 { // the row is set again
					c.truncate(i - 1)
					want = want[:i-1]
					c.add([]byte("again"[:min(tt.words, 1)]))
					want = append(want, "again"[:min(tt.words, 1)])
				}
				value := strings.Repeat("common ", 3) + fmt.Sprint(i%max(tt.words-1, 1))
				if tt.long && i == 100 {
					value = strings.Repeat("x", maxWord+1)
				}
				if tt.words == 0 || i%11 == 3 {
					c.null()
					want = append(want, nil)
				} else {
					c.add([]byte(value))
					want = append(want, value)
				}
			}
			got := c.column(rows)
			if got.HasCodes() != codes {
				t.Errorf("%s, block %d: codes are %v", tt.name, block, got.HasCodes())
			}
			for i, v := range want {
				if v != nil && got.Any(i) != v { // the builder stores which values are null
					t.Fatalf("%s, block %d: row %d is %v, want %v", tt.name, block, i, got.Any(i),
						v)
				}
			}
		}
	}
}

// A long value after nulls is read, and the nulls remain.
func TestTextsAfterNulls(t *testing.T) {
	var c texts
	c.reset(3)
	c.null()
	c.null()
	c.add([]byte(strings.Repeat("x", 300)))
	got := c.column(3)
	if got.Len() != 3 || len(got.Bytes(0)) > 0 || len(got.Bytes(1)) > 0 ||
		len(got.Bytes(2)) != 300 {
		t.Errorf("values of %d, %d and %d bytes", len(got.Bytes(0)), len(got.Bytes(1)),
			len(got.Bytes(2)))
	}
}
