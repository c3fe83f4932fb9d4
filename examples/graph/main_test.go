package main

import (
	"io"
	"strings"
	"testing"
)

func Example() {
	main()
	// Output:
	// 7 airports in 2 parts; the one that matters most is ZRH
	// ZRH: 0 minutes
	// FRA: 65 minutes
	// JFK: 585 minutes
	// LIS: 170 minutes
	// VIE: 85 minutes
	// HNL: no way from ZRH
	// OGG: no way from ZRH
}

// Errors in the list are reported.
func TestErrors(t *testing.T) {
	for list, say := range map[string]string{
		"from,to,minutes\nZRH,FRA,soon\n": `flights.csv:2: weight "soon" is not a number`,
		"from,to,minutes\nVIE,FRA,90\n":   "no flight begins or ends in ZRH",
		"from,to,minutes\nZRH,FRA,-1\n":   "has the invalid weight -1",
	} {
		if err := report(t.Context(), io.Discard, strings.NewReader(list), "ZRH"); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want %q", list, err, say)
		}
	}
}
