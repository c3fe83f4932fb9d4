package mutate

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Replace returns a rewrite that breaks kernels. It replaces matches of the expression pattern in
// the kernels that the expression kernels selects. That expression must match a kernel's name
// without the name of the structure. Replace fails the test at its end if no loaded file matched.
func Replace(t testing.TB, kernels, pattern, with string) func(file, ptx string) string {
	re, names := regexp.MustCompile(pattern), regexp.MustCompile(`^[a-z]+_(?:`+kernels+`)\(`)
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
			if names.MatchString(p) && re.MatchString(p) {
				parts[i] = re.ReplaceAllString(p, with)
				mu.Lock()
				changed = true
				mu.Unlock()
			}
		}
		return strings.Join(parts, "")
	}
}
