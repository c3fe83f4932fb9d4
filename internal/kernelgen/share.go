package kernelgen

import (
	"strconv"
	"strings"
)

// share lets code for a newer target use the PTX of an older one, if they differ only in the PTX
// version, the target and the register bounds.
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

// sameInstructions reports whether two modules of PTX differ only in the lines with the target, the
// version and the register bounds. It returns the bounds of the second module that differ, by
// kernel.
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

// minBlocksDirective begins a line with the number of blocks that must fit on a multiprocessor.
const minBlocksDirective = ".minnctapersm "

// isHeader reports whether a line gives the origin or target of a module.
func isHeader(line string) bool {
	return strings.HasPrefix(line, "// ") || strings.HasPrefix(line, ".version ") || strings.HasPrefix(line, ".target ")
}
