package mutate

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Replace breaks kernels by hand: what matches a pattern in those whose names,
// behind that of the image, match another. Images without such kernels stay as
// they are. It fails the test if an image with such kernels has nothing like the
// pattern, or if no image has such kernels.
func Replace(t testing.TB, kernels, pattern, with string) func(file, ptx string) string {
	what, names := regexp.MustCompile(pattern), regexp.MustCompile(`^[a-z]+_(?:`+kernels+`)\(`)
	var mu sync.Mutex
	seen := false
	t.Cleanup(func() {
		if !seen {
			t.Errorf("no image was loaded that has a kernel %s", kernels)
		}
	})
	return func(file, ptx string) string {
		has, changed := false, false
		parts := strings.SplitAfter(ptx, ".entry ")
		for i, p := range parts {
			if names.MatchString(p) {
				has = true
				parts[i] = what.ReplaceAllString(p, with)
				changed = changed || what.MatchString(p)
			}
		}
		mu.Lock()
		seen = seen || has
		mu.Unlock()
		if has && !changed {
			t.Errorf("%s has nothing like %s in a kernel %s", file, pattern, kernels)
		}
		return strings.Join(parts, "")
	}
}
