package conformance

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// CompareConstants fails the test if a constant in a C++ header differs from the corresponding Go
// constant. files maps the name of a header to its constants and their values in Go.
func CompareConstants(t testing.TB, files map[string]map[string]int) {
	t.Helper()
	for file, want := range files {
		src, err := os.ReadFile(file)
		must(t, err)
		got := constantsOf(string(src))
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s: %s is %d (%v), in Go it is %d", file, name, v, ok, n)
			}
		}
	}
}

var (
	number   = regexp.MustCompile(`\b(k\w+) = (\d+)\s*[,;}]`)
	sentinel = regexp.MustCompile(`static constexpr K (k\w+) = ~K\(0\)(?: - (\d))?;`)
	kinds    = regexp.MustCompile(`enum Kind : uint32_t \{ ([\w, ]+) \};`)
)

// constantsOf returns the constants in C++ source that are plain numbers, sentinels counted from
// the largest value, or kinds of operations.
func constantsOf(src string) map[string]int {
	found := map[string]int{}
	for _, m := range append(number.FindAllStringSubmatch(src, -1), sentinel.FindAllStringSubmatch(src, -1)...) {
		found[m[1]], _ = strconv.Atoi(m[2]) // an empty match is 0
	}
	for _, m := range kinds.FindAllStringSubmatch(src, -1) {
		for i, name := range strings.Split(m[1], ", ") {
			found[name] = i
		}
	}
	return found
}
