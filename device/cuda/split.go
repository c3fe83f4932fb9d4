package cuda

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weftgo/weft/device"
)

// source is the PTX text of a target, split into items, so that the driver can compile each kernel
// at its first launch. A program uses few of a structure's twenty kernels.
type source struct {
	parts   []part            // items that kernels reference by name
	kernels map[string]string // text of each kernel, by name
}

// part is a constant, a variable in shared memory, or a function that the compiler did not inline.
type part struct{ name, text string }

var (
	entryHead = regexp.MustCompile(`^(?:\.visible |\.weak )*\.entry ([\w$]+)`)
	funcHead  = regexp.MustCompile(`^(?:\.visible |\.weak )*\.func (?:\([^)]*\) ?)?([\w$]+)`)
	// variableHead matches constants and variables in shared memory. Several modules may each have
	// a copy of them: shared memory is separate for each kernel, and constants are never written.
	variableHead = regexp.MustCompile(`^(?:\.visible |\.weak )*\.(?:const|shared) (?:\.align \d+ )?\.\w+ ([\w$]+)`)
)

// split parses text in the form that cmd/weftgen writes, without comments and indentation. It
// returns nil for text with other top-level items, such as a variable in global memory that kernels
// share. Callers compile such text as a whole.
func split(ptx string) *source {
	s := &source{kernels: map[string]string{}}
	for item, ok := range items(ptx) {
		if !ok {
			return nil
		}
		if m := entryHead.FindStringSubmatch(item); m != nil {
			s.kernels[m[1]] = item
		} else if m := funcHead.FindStringSubmatch(item); m != nil {
			s.parts = append(s.parts, part{m[1], item})
		} else if m := variableHead.FindStringSubmatch(item); m != nil {
			s.parts = append(s.parts, part{m[1], item})
		} else {
			return nil
		}
	}
	return s
}

// items yields the top-level items of PTX text, except the directives of the module. If the text
// ends within an item, it yields the rest with false.
func items(ptx string) func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		begin, at, depth := 0, 0, 0
		for line := range strings.Lines(ptx) {
			at += len(line)
			text := strings.TrimSuffix(line, "\n")
			if begin == at-len(line) && (text == "" || strings.HasPrefix(text, "//") || isModuleDirective(text)) {
				begin = at
				continue
			}
			depth += strings.Count(text, "{") - strings.Count(text, "}")
			if depth > 0 || !strings.HasSuffix(text, ";") && !strings.HasSuffix(text, "}") {
				continue
			}
			if !yield(ptx[begin:at], depth == 0) {
				return
			}
			begin = at
		}
		if begin < at {
			yield(ptx[begin:], false)
		}
	}
}

func isModuleDirective(line string) bool {
	for _, d := range []string{".version ", ".target ", ".address_size "} {
		if strings.HasPrefix(line, d) {
			return true
		}
	}
	return false
}

var (
	versionLine   = regexp.MustCompile(`(?m)^\.version .*$`)
	minBlocksLine = regexp.MustCompile(`(?m)^\.minnctapersm .*$`)
)

// kernel returns the text of a module with one kernel and the parts that the kernel uses. The
// module's target architecture is t.Arch.
func (s *source) kernel(name string, t *device.Target) string {
	text := s.kernels[name]
	if n, ok := t.MinBlocks[name]; ok {
		text = minBlocksLine.ReplaceAllLiteralString(text, fmt.Sprintf(".minnctapersm %d", n))
	}
	used := make([]bool, len(s.parts))
	for grown := true; grown; {
		grown = false
		for i, p := range s.parts {
			if !used[i] && strings.Contains(text, p.name) {
				used[i], grown = true, true
				text = p.text + text
			}
		}
	}
	return fmt.Sprintf("%s\n.target sm_%d\n.address_size 64\n", versionLine.FindString(t.PTX), t.Arch) + text
}
