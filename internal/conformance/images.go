package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
)

// Images returns the kernel images of a structure, sorted by name.
func Images(byWidths map[string]*device.Image) (all []*device.Image) {
	for _, pair := range slices.Sorted(maps.Keys(byWidths)) {
		all = append(all, byWidths[pair])
	}
	return all
}

// archSpecific matches the lines of an image that name the architecture or are tuned for it.
var archSpecific = regexp.MustCompile(`(?m)^\.target .*|^\.minnctapersm .*|^\.maxntid .*|^//.*`)

// SameKernels requires the images for both architectures to hold the same instructions. If so,
// tests that interpret kernels need only one of them.
func SameKernels(t *testing.T, images ...string) {
	SkipRaced(t, "compares files")
	for _, image := range images {
		var text [2]string
		for i, arch := range []string{"_sm80.ptx", "_sm90.ptx"} {
			ptx, err := os.ReadFile(image + arch)
			if err != nil {
				t.Skip("the images are not here")
			}
			text[i] = archSpecific.ReplaceAllString(string(ptx), "")
		}
		if text[0] != text[1] {
			t.Errorf("%s differs between the architectures", image)
		}
	}
}
