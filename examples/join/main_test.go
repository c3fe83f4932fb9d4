package main

import (
	"strings"
	"testing"
)

func Example() {
	main()
	// Output:
	// 1   9.50 Grace
	// 2  20.00 Ada
	// 3   3.00 -
	// 4   1.25 Grace
}

func TestReport(t *testing.T) {
	one := orders{id: []uint32{7}, customer: []int64{5}, amount: []float64{2}}
	for _, c := range []struct {
		name  string
		left  orders
		right customers
		want  string
	}{
		{"all of equal keys", one, customers{[]int64{5, 6, 5}, []string{"Ada", "Grace", "Mary"}}, "7   2.00 Ada\n7   2.00 Mary\n"},
		{"nothing to join with", one, customers{}, "7   2.00 -\n"},
		{"nothing to join", orders{}, customers{[]int64{5}, []string{"Ada"}}, ""},
	} {
		var b strings.Builder
		if err := report(t.Context(), &b, c.left, c.right); err != nil || b.String() != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, b.String(), err, c.want)
		}
	}
}
