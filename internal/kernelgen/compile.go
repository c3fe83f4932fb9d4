package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// target is one architecture to compile for.
type target struct {
	arch    int
	feature string // "ptx85"; "" for clang's default
}

func (t target) suffix() string { return fmt.Sprintf("_sm%d.ptx", t.arch) }

func (t target) String() string {
	if t.feature == "" {
		return strconv.Itoa(t.arch)
	}
	return fmt.Sprintf("%d+%s", t.arch, t.feature)
}

// parseTargets reads "80,90+ptx85", ascending.
func parseTargets(s string) ([]target, error) {
	var ts []target
	for field := range strings.SplitSeq(s, ",") {
		arch, feature, _ := strings.Cut(field, "+")
		n, err := strconv.Atoi(arch)
		if err != nil || n < 70 || len(ts) > 0 && n <= ts[len(ts)-1].arch {
			return nil, fmt.Errorf("-target %s: want ascending numbers like %s", s, defaultTargets)
		}
		ts = append(ts, target{n, feature})
	}
	return ts, nil
}

// commonFlags are those of every compilation, relative to the module's root.
// No header of the system is found, so the output depends on the tree alone.
func commonFlags() []string {
	return []string{
		"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc",
		"-std=c++17", "-Wall", "-Werror", "-I", "kernels/include",
	}
}

// compileFlags are those of kernels.
func compileFlags() []string { return append(commonFlags(), "-O3") }

// compiler runs clang on one source.
type compiler struct {
	options *options
	version string // "clang version 19.1.7"
	source  string // relative to the module's root
	text    string // to be compiled in place of the source; "" for itself
}

func newCompiler(o *options) (*compiler, error) {
	out, err := exec.Command(o.clang, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no compiler %s: apt-get install clang-19, or name another clang 19 by WEFT_CLANG or -clang", o.clang)
	}
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", o.clang, err)
	}
	v := regexp.MustCompile(`clang version (\d+)[.\d]*`).FindSubmatch(out)
	if v == nil {
		return nil, fmt.Errorf("%s is not clang: %q", o.clang, firstLine(out))
	}
	// Another major version writes other PTX, and every rebuild would differ.
	if string(v[1]) != "19" {
		return nil, fmt.Errorf("%s is %s, and the kernels are built with clang 19: apt-get install clang-19", o.clang, v[0])
	}
	source, err := filepath.Rel(o.root, o.source)
	if err != nil {
		return nil, err
	}
	return &compiler{options: o, version: string(v[0]), source: filepath.ToSlash(source)}, nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// run compiles a variant for t with more flags, from the module's root, so that
// no path of this machine enters the output.
func (c *compiler) run(t target, v variant, flags ...string) ([]byte, error) {
	args := append(flags, v.flags()...)
	args = append(args, "--cuda-gpu-arch=sm_"+strconv.Itoa(t.arch))
	if t.feature != "" {
		args = append(args, "--cuda-feature=+"+t.feature)
	}
	file := c.source
	if c.text != "" {
		file = "-"
	}
	cmd := exec.Command(c.options.clang, append(args, file)...)
	cmd.Dir, cmd.Stdin = c.options.root, strings.NewReader(c.text)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s for sm_%d: %w\n%s", c.source, t.arch, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// inputs are the source and all headers it includes in any variant for any
// target, relative to the module's root and sorted.
func (c *compiler) inputs() ([]string, error) {
	var files []string
	for _, t := range c.options.targets {
		for _, v := range c.options.variants() {
			rule, err := c.run(t, v, append(compileFlags(), "-MM", "-MT", "x")...)
			if err != nil {
				return nil, err
			}
			list := strings.TrimPrefix(string(rule), "x:")
			files = append(files, strings.Fields(strings.ReplaceAll(list, "\\\n", " "))...)
		}
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "-" })
	for i, f := range files {
		files[i] = filepath.ToSlash(filepath.Clean(f))
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf("%s includes %s, which is outside of the module", c.source, f)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// compile makes PTX.
func (c *compiler) compile(t target, v variant) (string, error) {
	out, err := c.run(t, v, append(compileFlags(), "-S", "-o", "-")...)
	return string(out), err
}

// debug makes PTX that describes all types: only unoptimized code does.
func (c *compiler) debug(v variant) (string, error) {
	out, err := c.run(c.options.targets[0], v, append(commonFlags(), "-O0", "-g", "-S", "-o", "-")...)
	return string(out), err
}
