package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Groups beyond --memory come from the temporary file, and are the same.
func TestGroupsBeyondMemory(t *testing.T) {
	const n = 300_000
	var text strings.Builder
	text.WriteString("key,n\n")
	for _, copies := range []int{n, n / 3} {
		for i := range copies {
			text.WriteString("a key of some length " + strconv.Itoa(i) + "," + strconv.Itoa(i%1000) + "\n")
		}
	}
	file := tableFile(t, "many.csv", text.String())
	run := func(args ...string) string {
		t.Helper()
		out, errs, status := runWeft(t, "", append(args, file)...)
		if status != exitOK {
			t.Fatalf("%v: status %d, %s", args, status, errs)
		}
		return out
	}
	lines := func(out string) []string {
		all := strings.Split(out, "\n")
		slices.Sort(all)
		return all
	}
	group := []string{"group", "--by", "key", "--agg", "count,sum:n,last:n", "--csv"}
	little := []string{"--memory", "16MiB", "--temp-dir", "/var/tmp"}
	if want, got := run(group...), run(append(group, little...)...); !slices.Equal(lines(got),
		lines(want)) {
		t.Error("other groups with less memory")
	} else if got == want {
		t.Error("nothing went to the temporary file")
	}
	for _, more := range [][]string{{"--sort", "key:desc"}, {"--sort", "count:desc,key", "--top",
		"5"}} {
		args := append(slices.Clone(group), more...)
		if want, got := run(args...), run(append(args, little...)...); got != want {
			t.Errorf("%v: other groups with less memory", more)
		}
	}
	if out := run(append([]string{"distinct", "--by", "key", "--count"},
		little...)...); out != strconv.Itoa(n)+"\n" {
		t.Errorf("%s distinct keys", out)
	}
	if out := run(append([]string{"distinct", "--by", "key", "--top", "3", "--csv"},
		little...)...); strings.Count(out, "\n") != 4 {
		t.Errorf("the first 3 are %s", out)
	}
}
