package main

import (
	"strings"
	"testing"
)

// Under a limit, weft has the same results as without.
func TestJobs(t *testing.T) {
	for _, job := range []string{"group", "distinct", "join"} {
		for _, skew := range []string{"uniform", "half", "zipf"} {
			x := task{Job: job, Skew: skew, Rows: 1_500_000, Keys: 700_000, Dir: "/var/tmp"}
			want, err := runWeft(x)
			if err != nil {
				t.Fatal(err)
			}
			x.Memory = 16 << 20
			got, err := runWeft(x)
			if err != nil || got.Rows != want.Rows || got.Sum != want.Sum {
				t.Errorf("%s, %s: %d rows of sum %d, want %d and %d, %v", job, skew, got.Rows,
					got.Sum, want.Rows, want.Sum, err)
			}
			if job == "join" && got.Rows != x.Rows {
				t.Errorf("%s, %s: %d rows, want %d", job, skew, got.Rows, x.Rows)
			}
		}
	}
	if _, err := runWeft(task{Job: "sort"}); err == nil || !strings.Contains(err.Error(), "sort") {
		t.Errorf("another job: %v", err)
	}
}
