package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// compileFlags are those of every compilation, relative to the module's root.
// No header of the system is found, so the output depends on the tree alone.
func compileFlags() []string {
	return []string{
		"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc",
		"-std=c++17", "-O3", "-Wall", "-Werror", "-I", "kernels/include",
	}
}

// compiler runs clang on one source.
type compiler struct {
	options *options
	version string // "clang version 19.1.7"
	source  string // relative to the module's root
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
	return &compiler{o, string(v[0]), filepath.ToSlash(source)}, nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// run compiles for t with more flags, from the module's root, so that no path
// of this machine enters the output.
func (c *compiler) run(t target, extra ...string) ([]byte, error) {
	args := append(compileFlags(), "--cuda-gpu-arch=sm_"+strconv.Itoa(t.arch))
	if t.feature != "" {
		args = append(args, "--cuda-feature=+"+t.feature)
	}
	cmd := exec.Command(c.options.clang, append(append(args, extra...), c.source)...)
	cmd.Dir = c.options.root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s for sm_%d: %w\n%s", c.source, t.arch, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// inputs are the source and all headers it includes for any target, relative
// to the module's root and sorted.
func (c *compiler) inputs() ([]string, error) {
	var files []string
	for _, t := range c.options.targets {
		rule, err := c.run(t, "-MM", "-MT", "x")
		if err != nil {
			return nil, err
		}
		list := strings.TrimPrefix(string(rule), "x:")
		files = append(files, strings.Fields(strings.ReplaceAll(list, "\\\n", " "))...)
	}
	for i, f := range files {
		files[i] = filepath.ToSlash(filepath.Clean(f))
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf("%s includes %s, which is outside of the module", c.source, f)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// compile makes PTX for t, and the layouts of all structs used in it.
func (c *compiler) compile(t target) (text string, layouts map[string]*record, err error) {
	dir, err := os.MkdirTemp("", "kernelgen")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out.ptx")
	dump, err := c.run(t, "-S", "-Xclang", "-fdump-record-layouts", "-o", out)
	if err != nil {
		return "", nil, err
	}
	if layouts, err = parseLayouts(string(dump)); err != nil {
		return "", nil, err
	}
	b, err := os.ReadFile(out)
	return string(b), layouts, err
}

// parameterTypes maps kernels to the C++ type of their one parameter, as
// clang's layouts spell it; functions with other numbers of parameters to "".
func (c *compiler) parameterTypes() (map[string]string, error) {
	filter := strings.TrimSuffix(filepath.Base(c.source), ".cu") + "_"
	tree, err := c.run(c.options.targets[0], "-fsyntax-only",
		"-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter="+filter)
	if err != nil {
		return nil, err
	}
	return parseParameterTypes(bytes.NewReader(tree))
}

func parseParameterTypes(r io.Reader) (map[string]string, error) {
	type node struct {
		Kind, Name string
		Type       struct{ QualType, DesugaredQualType string }
		Inner      []node
	}
	types := make(map[string]string)
	for dec := json.NewDecoder(r); ; {
		var f node
		if err := dec.Decode(&f); err == io.EOF {
			return types, nil
		} else if err != nil {
			return nil, fmt.Errorf("syntax tree of clang: %w", err)
		}
		var params []string
		for _, p := range f.Inner {
			if p.Kind == "ParmVarDecl" {
				typ := p.Type.DesugaredQualType
				if typ == "" {
					typ = p.Type.QualType
				}
				params = append(params, strings.TrimPrefix(typ, "const "))
			}
		}
		if f.Kind == "FunctionDecl" && len(params) == 1 {
			types[f.Name] = params[0]
		}
	}
}
