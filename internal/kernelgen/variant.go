package kernelgen

import (
	"fmt"
	"regexp"
	"strings"
)

// variant names an image of a source that has several images. It is a pair of widths, such as
// "64_32", or "" if the source has one image.
type variant string

var pairOfWidths = regexp.MustCompile(`^\d+_\d+$`)

// parseWidths parses variants such as "32_32,64_0", pairs of the bits of a key and of a value.
func parseWidths(s string) ([]variant, error) {
	if s == "" {
		return nil, nil
	}
	var all []variant
	for pair := range strings.SplitSeq(s, ",") {
		if !pairOfWidths.MatchString(pair) {
			return nil, fmt.Errorf("-widths %s: want pairs of the bits of a key and a value, such as 64_32,64_0", s)
		}
		all = append(all, variant(pair))
	}
	return all, nil
}

// flags returns the flags that define the macros of the variant.
func (v variant) flags() []string {
	if v == "" {
		return nil
	}
	key, val, _ := strings.Cut(string(v), "_")
	return []string{"-DWEFT_KEY_BITS=" + key, "-DWEFT_VALUE_BITS=" + val}
}

// suffix returns the suffix of the names of the variant's kernels and files.
func (v variant) suffix() string {
	if v == "" {
		return ""
	}
	return "_" + string(v)
}

// ident returns the variant as a part of Go names: "64x32".
func (v variant) ident() string { return strings.Replace(string(v), "_", "x", 1) }
