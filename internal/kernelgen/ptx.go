package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ptx is a module of PTX assembly.
type ptx struct {
	text    string   // without comments, positions and indentation
	entries []entry  // in order of the text
	local   []string // functions that use local memory
}

// entry is an entry point.
type entry struct {
	name        string
	size, align int // of its one parameter
}

var (
	functionHead = regexp.MustCompile(`(?m)^(?:\.\w+ )*\.(entry|func) (?:\(.*?\) )?([\w$]+)\(`)
	entryParams  = regexp.MustCompile(`\.visible \.entry ([\w$]+)\(([^)]*)\)`)
	structParam  = regexp.MustCompile(`^\s*\.param \.align (\d+) \.b8 [\w$]+\[(\d+)\]\s*$`)
	externFunc   = regexp.MustCompile(`(?m)^\.extern \.func.*$`)
	ptxVersion   = regexp.MustCompile(`(?m)^\.version (\d+)\.(\d+)$`)
)

// parsePTX strips a module and finds its entry points.
func parsePTX(text string) (*ptx, error) {
	p := &ptx{text: strip(text)}
	if f := externFunc.FindString(p.text); f != "" {
		return nil, fmt.Errorf("calls a function that nobody defines: %s", f)
	}
	if err := checkVersion(p.text); err != nil {
		return nil, err
	}
	for _, m := range entryParams.FindAllStringSubmatch(p.text, -1) {
		param := structParam.FindStringSubmatch(m[2])
		if param == nil {
			return nil, fmt.Errorf("kernel %s takes (%s): it must take one struct by value", m[1], strings.TrimSpace(m[2]))
		}
		align, _ := strconv.Atoi(param[1])
		size, _ := strconv.Atoi(param[2])
		p.entries = append(p.entries, entry{m[1], size, align})
	}
	if len(p.entries) == 0 {
		return nil, fmt.Errorf(`has no kernels: declare them extern "C" __global__`)
	}
	p.local = localUsers(p.text)
	return p, nil
}

// strip drops what does not assemble: comments, source positions, blank lines
// and indentation, which make up a third of clang's output.
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

// checkVersion refuses 128-bit instructions in a module of an older PTX
// version: clang passes inline assembly through, and the driver of a user
// would be the first to object.
func checkVersion(text string) error {
	v := ptxVersion.FindStringSubmatch(text)
	if v == nil {
		return fmt.Errorf("has no .version")
	}
	major, _ := strconv.Atoi(v[1])
	minor, _ := strconv.Atoi(v[2])
	if strings.Contains(text, ".b128") && (major < 8 || major == 8 && minor < 3) {
		return fmt.Errorf("uses .b128, which needs PTX 8.3, at version %s.%s: give the version by -target, e.g. 80+ptx83", v[1], v[2])
	}
	return nil
}

// localUsers are the functions with a stack frame, which lies in local memory.
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
