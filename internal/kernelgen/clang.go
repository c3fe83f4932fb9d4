package kernelgen

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// minClang is the first version of clang that compiles the headers. weft's own kernels are compiled
// by exactly this version. Other versions emit other PTX, so that every rebuild would change the
// files.
const minClang = 19

// clangs are the names under which findClang looks for a compiler.
var clangs = []string{"clang-19", "clang-20", "clang-21", "clang-22", "clang"}

// install tells users how to install a compiler. Error messages include it.
const install = "install clang 19 (Debian, Ubuntu: apt-get install clang-19; Fedora: dnf install clang; macOS: brew install llvm), " +
	"or name the program with -clang or the environment variable WEFT_CLANG"

// findClang returns the requested compiler, or else the first suitable one of clangs. version has
// the form "clang version 19.1.7".
func findClang(ctx context.Context, requested string, isWeft bool) (program, version string, err error) {
	if requested != "" {
		version, err = clangVersion(ctx, requested, isWeft)
		return requested, version, err
	}
	candidates := clangs
	if isWeft {
		candidates = clangs[:1]
	}
	var bad error // error of the first unsuitable compiler
	for _, program := range candidates {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		version, err := clangVersion(ctx, program, isWeft)
		if err == nil {
			return program, version, nil
		}
		if bad == nil {
			bad = err
		}
	}
	if bad != nil {
		return "", "", bad
	}
	return "", "", fmt.Errorf("no compiler found: looked for %s; %s", strings.Join(candidates,
		", "), install)
}

var (
	clangLine = regexp.MustCompile(`clang version (\d+)[.\d]*`)
	appleLine = regexp.MustCompile(`Apple clang`)
)

// clangVersion returns the version of a compiler, or an error that says why it is unsuitable.
func clangVersion(ctx context.Context, program string, isWeft bool) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("the compiler %s does not run: %w; %s", program, err, install)
	}
	v := clangLine.FindSubmatch(out)
	switch {
	case appleLine.Match(out):
		return "", fmt.Errorf("%s is Apple's clang, which cannot compile to PTX; %s", program,
			install)
	case v == nil:
		return "", fmt.Errorf("%s is not clang: %s --version prints %.80q; %s", program, program, firstLine(out), install)
	}
	major, _ := strconv.Atoi(string(v[1]))
	switch {
	case isWeft && major != minClang:
		return "", fmt.Errorf("%s is %s, but weft's own kernels are built with clang %d; apt-get install clang-19, or set -clang", program, v[0], minClang)
	case major < minClang:
		return "", fmt.Errorf("%s is %s, too old: weftgen needs clang %d or newer; %s", program, v[0], minClang, install)
	}
	return string(v[0]), nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// advice maps compiler errors to explanations, if their cause lies outside the source.
var advice = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`fatal error: '(?:c?std\w+|cuda\w*|cuda_runtime\.h|math|cmath|math\.h|algorithm|limits|utility|type_traits)(?:\.h)?' file not found`),
		"kernels are compiled without system headers, so that the output depends only on the module; weft/builtin.cuh declares threadIdx, blockIdx, blockDim, gridDim and integer types"},
	{regexp.MustCompile(`(?:unknown type name|use of undeclared identifier) '(?:__global__|__device__|threadIdx|blockIdx|blockDim|gridDim|u?int(?:8|16|32|64)_t)'|unknown type name '__global__'`),
		`begin the source with #include "weft/builtin.cuh"`},
	{regexp.MustCompile(`'weft/[\w./]+' file not found`),
		"this version of weft has no such header; package kernels lists the headers"},
	{regexp.MustCompile(`(?:unable to create target|unknown target triple|No available targets)`),
		"this clang was built without NVPTX, the back end for NVIDIA GPUs; " + install},
}

// addAdvice appends the matching advice to compiler errors.
func addAdvice(messages string) string {
	for _, a := range advice {
		if a.pattern.MatchString(messages) {
			messages = strings.TrimRight(messages, "\n") + "\n" + a.text
		}
	}
	return strings.TrimRight(messages, "\n")
}
