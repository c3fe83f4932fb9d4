package mutate

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Replace breaks kernels by hand: what matches a pattern in those whose names,
// behind that of the structure, match another. It fails the test if nothing does
// in any file that is loaded.
func Replace(t testing.TB, kernels, pattern, with string) func(file, ptx string) string {
	what, names := regexp.MustCompile(pattern), regexp.MustCompile(`^[a-z]+_(?:`+kernels+`)\(`)
	var mu sync.Mutex
	changed := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if !changed {
			t.Errorf("nothing is like %s in a kernel %s", pattern, kernels)
		}
	})
	return func(file, ptx string) string {
		parts := strings.SplitAfter(ptx, ".entry ")
		for i, p := range parts {
			if names.MatchString(p) && what.MatchString(p) {
				parts[i] = what.ReplaceAllString(p, with)
				mu.Lock()
				changed = true
				mu.Unlock()
			}
		}
		return strings.Join(parts, "")
	}
}
