package kernelgen

import (
	"strconv"
	"strings"
)

// share returns code that refers to the PTX of an older target, if the two texts differ only in the
// PTX version, the target and .minnctapersm (blocks that must fit a multiprocessor). Otherwise it
// returns c.
func (im *image) share(c code) code {
	for i := len(im.codes) - 1; i >= 0; i-- {
		if im.codes[i].owner != i {
			continue
		}
		if bounds, same := sameInstructions(im.codes[i].text, c.text); same {
			return code{owner: i, minBlocks: bounds}
		}
	}
	return c
}

// sameInstructions reports whether two modules of PTX differ only in the lines of the target, the
// version and .minnctapersm. minBlocks holds, by kernel, the values of .minnctapersm in the newer
// module that differ from those in the older one.
func sameInstructions(old, new string) (minBlocks map[string]int, same bool) {
	a, b := strings.Split(old, "\n"), strings.Split(new, "\n")
	if len(a) != len(b) {
		return nil, false
	}
	minBlocks = map[string]int{}
	name := ""
	for i, line := range b {
		if m := functionHead.FindStringSubmatch(line); m != nil {
			name = m[2]
		}
		if line == a[i] || isHeader(line) && isHeader(a[i]) {
			continue
		}
		n, ok := strings.CutPrefix(line, minBlocksDirective)
		if !ok || !strings.HasPrefix(a[i], minBlocksDirective) {
			return nil, false
		}
		var err error
		if minBlocks[name], err = strconv.Atoi(n); err != nil {
			return nil, false
		}
	}
	return minBlocks, true
}

// minBlocksDirective begins the line that sets how many blocks must fit a multiprocessor.
const minBlocksDirective = ".minnctapersm "

// isHeader reports whether a line is a comment, or sets the version or target of a module.
func isHeader(line string) bool {
	return strings.HasPrefix(line, "// ") || strings.HasPrefix(line, ".version ") || strings.HasPrefix(line, ".target ")
}
