package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// In this file the fake driver parses the parameters of kernels from PTX text.

// entryPattern matches an entry point: its name and its parameters, which contain no parentheses.
var entryPattern = regexp.MustCompile(`\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?`)

// paramPattern matches one parameter: type, name, and the length of an array.
var paramPattern = regexp.MustCompile(`^\.param\b.*?\s\.[bsuf](8|16|32|64)\b.*?\s([\w$%]+)(?:\[(\d+)\])?$`)

// entries returns the sizes in bytes of the parameters of each entry point.
func entries(ptx string) (map[string][]int, error) {
	found := map[string][]int{}
	for _, m := range entryPattern.FindAllStringSubmatch(ptx, -1) {
		sizes := []int{}
		for param := range strings.SplitSeq(m[2], ",") {
			if param = strings.TrimSpace(param); param == "" {
				continue
			}
			size, err := paramSize(param)
			if err != nil {
				return nil, fmt.Errorf("entry point %s: %w", m[1], err)
			}
			sizes = append(sizes, size)
		}
		found[m[1]] = sizes
	}
	return found, nil
}

// paramSize returns the size in bytes of a parameter ".param .align 8 .b8 name_param_0[48]".
func paramSize(param string) (int, error) {
	m := paramPattern.FindStringSubmatch(param)
	if m == nil {
		return 0, fmt.Errorf("cannot read the parameter %q", param)
	}
	bits, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, err
	}
	count := 1
	if m[3] != "" {
		if count, err = strconv.Atoi(m[3]); err != nil {
			return 0, fmt.Errorf("parameter %q: %w", param, err)
		}
	}
	return count * bits / 8, nil
}
