package mutate

import (
	"regexp"
	"strings"
	"testing"
)

// Replace breaks kernels by hand: what matches a pattern in those whose names,
// behind that of the image, match another. It fails the test if nothing does.
func Replace(t testing.TB, kernels, pattern, with string) func(file, ptx string) string {
	what, names := regexp.MustCompile(pattern), regexp.MustCompile(`^[a-z]+_(?:`+kernels+`)\(`)
	return func(file, ptx string) string {
		changed := false
		parts := strings.SplitAfter(ptx, ".entry ")
		for i, p := range parts {
			if names.MatchString(p) && what.MatchString(p) {
				parts[i] = what.ReplaceAllString(p, with)
				changed = true
			}
		}
		if !changed {
			t.Errorf("%s has nothing like %s in a kernel %s", file, pattern, kernels)
		}
		return strings.Join(parts, "")
	}
}
