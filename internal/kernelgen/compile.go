package kernelgen

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// target is an architecture to compile for.
type target struct {
	arch    int
	feature string // PTX version such as "ptx85", or "" for clang's default
}

func (t target) suffix() string { return fmt.Sprintf("_sm%d.ptx", t.arch) }

func (t target) String() string {
	if t.feature == "" {
		return strconv.Itoa(t.arch)
	}
	return fmt.Sprintf("%d+%s", t.arch, t.feature)
}

// parseTargets parses targets in ascending order, such as "80,90+ptx85".
func parseTargets(s string) ([]target, error) {
	var ts []target
	for field := range strings.SplitSeq(s, ",") {
		arch, feature, _ := strings.Cut(field, "+")
		n, err := strconv.Atoi(arch)
		if err != nil || n < 70 || len(ts) > 0 && n <= ts[len(ts)-1].arch {
			return nil, fmt.Errorf("-target %s: want ascending numbers from 70 on, such as 80+ptx83,90+ptx83", s)
		}
		ts = append(ts, target{n, feature})
	}
	return ts, nil
}

// commonFlags returns the flags of every compilation, relative to the module's root. They exclude
// system headers, so that the output depends on the tree alone. They suppress warnings about weft's
// headers in other modules.
func (o *options) commonFlags() []string {
	flags := []string{
		"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc",
		"-std=c++17", "-Wall", "-Werror",
	}
	if o.isWeft() {
		return append(flags, "-I", weftInclude)
	}
	return append(flags, "-isystem", include)
}

// compileFlags returns the flags for kernels.
func (o *options) compileFlags() []string { return append(o.commonFlags(), "-O3") }

// sourceFlags returns the -I and -D flags that the source needs.
func (o *options) sourceFlags() (flags []string) {
	for _, dir := range o.include {
		flags = append(flags, "-I", dir)
	}
	for _, d := range o.define {
		flags = append(flags, "-D"+d)
	}
	return flags
}

// compiler runs clang on one source.
type compiler struct {
	options *options
	ctx     context.Context
	program string
	version string // for example "clang version 19.1.7"
	source  string // path relative to the module's root
	text    string // text to compile instead of the source, or ""
	include string // directory of weft's headers on this machine; "" in weft's module
}

func newCompiler(ctx context.Context, o *options) (*compiler, error) {
	source, err := o.relative(o.source)
	if err != nil {
		return nil, err
	}
	program, version, err := findClang(ctx, o.clang, o.isWeft())
	if err != nil {
		return nil, err
	}
	return &compiler{options: o, ctx: ctx, program: program, version: version, source: source}, nil
}

// run compiles a variant for target t with additional flags. It runs clang in the module's root, so
// that the output contains no path of this machine.
func (c *compiler) run(t target, v variant, flags ...string) ([]byte, error) {
	args := append(flags, c.options.sourceFlags()...)
	args = append(args, v.flags()...)
	args = append(args, "--cuda-gpu-arch=sm_"+strconv.Itoa(t.arch))
	if t.feature != "" {
		args = append(args, "--cuda-feature=+"+t.feature)
	}
	for i, arg := range args {
		args[i] = c.toLocal(arg)
	}
	file := c.source
	if c.text != "" {
		file = "-"
	}
	cmd := exec.CommandContext(c.ctx, c.program, append(args, file)...)
	cmd.Dir, cmd.Stdin = c.options.root, strings.NewReader(c.text)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if c.ctx.Err() != nil {
			return nil, fmt.Errorf("%s: interrupted", c.source)
		}
		return nil, fmt.Errorf("%s does not compile for sm_%d (%s: %w)\n%s", c.source, t.arch, c.program, err, addAdvice(c.toRecord(stderr.String())))
	}
	return stdout.Bytes(), nil
}

// inputs returns the source and all headers that it includes, in any variant for any target. The
// paths are relative to the module's root, and sorted.
func (c *compiler) inputs() ([]string, error) {
	var files []string
	for _, t := range c.options.targets {
		for _, v := range c.options.variants() {
			rule, err := c.run(t, v, append(c.options.compileFlags(), "-M", "-MT", "x")...)
			if err != nil {
				return nil, err
			}
			files = append(files, prerequisites(string(rule))...)
		}
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "-" })
	for i, f := range files {
		f = filepath.Clean(c.toRecord(f))
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf("%s includes %s, which is outside of the module, so other machines could not generate the same files; move it into the module", c.source, f)
		}
		files[i] = filepath.ToSlash(f)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// prerequisites returns the prerequisites of a make rule such as "x: a\ b.cu \".
func prerequisites(rule string) (files []string) {
	rule = strings.ReplaceAll(strings.TrimPrefix(rule, "x:"), "\\\n", " ")
	const space = "\x00"
	for _, f := range strings.Fields(strings.ReplaceAll(rule, `\ `, space)) {
		files = append(files, strings.ReplaceAll(f, space, " "))
	}
	return files
}

// compile emits PTX.
func (c *compiler) compile(t target, v variant) (string, error) {
	out, err := c.run(t, v, append(c.options.compileFlags(), "-S", "-o", "-")...)
	return string(out), err
}

// debug emits PTX that describes all types. Only PTX of unoptimized code does.
func (c *compiler) debug(v variant) (string, error) {
	out, err := c.run(c.options.targets[0], v, append(c.options.commonFlags(), "-O0", "-g", "-S", "-o", "-")...)
	return string(out), err
}
