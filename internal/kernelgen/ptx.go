package kernelgen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ptx is a parsed module of PTX assembly.
type ptx struct {
	text    string   // text without comments, source positions and indentation
	entries []entry  // entry points in the order of the text
	local   []string // functions that use local memory
}

// entry is an entry point.
type entry struct {
	name   string
	params []param
	size   int // size of the parameter block, without padding at the end
}

func (e entry) equal(o entry) bool { return slices.Equal(e.params, o.params) && e.size == o.size }

// param is the place of a parameter in the parameter block.
type param struct {
	offset, size int
}

var (
	functionHead = regexp.MustCompile(`(?m)^(?:\.\w+ )*\.(entry|func) (?:\(.*?\) )?([\w$]+)\(`)
	entryParams  = regexp.MustCompile(`\.visible \.entry ([\w$]+)\(([^)]*)\)`)
	entryParam   = regexp.MustCompile(`^\.param (?:\.align (\d+) )?\.[bsuf](\d+) (?:\.ptr [.\w ]*)?[\w$]+(?:\[(\d+)\])?$`)
	externFunc   = regexp.MustCompile(`(?m)^\.extern \.func.*$`)
	externShared = regexp.MustCompile(`(?m)^\.extern \.shared .* ([\w$]+)\[\];$`)
	ptxVersion   = regexp.MustCompile(`(?m)^\.version (\d+)\.(\d+)$`)
)

// parsePTX strips the text of a module and parses its entry points.
func parsePTX(text string) (*ptx, error) {
	p := &ptx{text: strip(text)}
	if f := externFunc.FindString(p.text); f != "" {
		return nil, fmt.Errorf("calls an undefined function: %s; kernels have no printf, malloc or assert, and only mathematical functions that are PTX instructions, such as __builtin_sqrtf", f)
	}
	if v := externShared.FindStringSubmatch(p.text); v != nil {
		return nil, fmt.Errorf("has shared memory %s of a size that the launch decides; declare it with a constant size", v[1])
	}
	if err := checkVersion(p.text); err != nil {
		return nil, err
	}
	for _, m := range entryParams.FindAllStringSubmatch(p.text, -1) {
		if strings.HasPrefix(m[1], "_Z") {
			return nil, fmt.Errorf(`kernel %s has a mangled C++ name: declare it extern "C" __global__`, m[1])
		}
		e, err := parseEntry(m[1], m[2])
		if err != nil {
			return nil, err
		}
		p.entries = append(p.entries, e)
	}
	if len(p.entries) == 0 {
		return nil, fmt.Errorf(`has no kernels: declare them extern "C" __global__`)
	}
	p.local = localUsers(p.text)
	return p, nil
}

// parseEntry lays out the parameters of a kernel in order, each at a multiple of its alignment. A
// launch passes them as such a block.
func parseEntry(name, list string) (entry, error) {
	e := entry{name: name}
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue // the kernel has no parameters
		}
		m := entryParam.FindStringSubmatch(text)
		if m == nil {
			return e, fmt.Errorf("kernel %s has a parameter that a launch cannot pass: %s", name,
				text)
		}
		bits, _ := strconv.Atoi(m[2])
		size, align := bits/8, bits/8
		if m[1] != "" {
			align, _ = strconv.Atoi(m[1])
		}
		if m[3] != "" {
			n, _ := strconv.Atoi(m[3])
			size *= n
		}
		at := (e.size + align - 1) &^ (align - 1)
		e.params = append(e.params, param{at, size})
		e.size = at + size
	}
	return e, nil
}

// strip removes comments, source positions, blank lines and indentation, which are a third of
// clang's output.
func strip(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == ".file" || fields[0] == ".loc" {
			continue
		}
		b.WriteString(strings.Join(fields, " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// checkVersion returns an error if a module of an older PTX version uses 128-bit instructions.
// clang does not check inline assembly, so that only the user's driver would report the error.
func checkVersion(text string) error {
	v := ptxVersion.FindStringSubmatch(text)
	if v == nil {
		return fmt.Errorf("has no .version line")
	}
	major, _ := strconv.Atoi(v[1])
	minor, _ := strconv.Atoi(v[2])
	if strings.Contains(text, ".b128") && (major < 8 || major == 8 && minor < 3) {
		return fmt.Errorf("uses .b128, which needs PTX 8.3 or newer, but has PTX %s.%s; set the version with -target, such as 80+ptx83", v[1], v[2])
	}
	return nil
}

// localUsers returns the functions that have a stack frame, which lies in local memory.
func localUsers(text string) []string {
	var users []string
	name := ""
	for line := range strings.Lines(text) {
		if m := functionHead.FindStringSubmatch(line); m != nil {
			name = m[2]
		}
		if strings.HasPrefix(line, ".local ") {
			users = append(users, name)
		}
	}
	return users
}
