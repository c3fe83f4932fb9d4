package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// provenance is the record in a generated file of how it came about. It is
// enough to tell without a compiler whether the outputs are up to date.
type provenance struct {
	version  string
	compiler string
	targets  string
	flags    string
	files    []fileDigest // inputs, then outputs
}

// fileDigest is the content of a file at generation.
type fileDigest struct {
	output bool
	path   string // relative to the module's root, with slashes
	size   int
	sum    string // SHA-256, hexadecimal
}

// prefix begins each line of a record; a directive to the Go tools, so that
// it stays out of the documentation.
const prefix = "//kernelgen:"

func (p *provenance) String() string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s%s %s\n", prefix, key, value) }
	line("version", p.version)
	line("compiler", p.compiler)
	line("target", p.targets)
	line("flags", p.flags)
	for _, f := range p.files {
		key := "input"
		if f.output {
			key = "output"
		}
		line(key, fmt.Sprintf("%s %d %s", f.sum, f.size, f.path))
	}
	return b.String()
}

// record describes a generation.
func (g *generated) record() (*provenance, error) {
	p := &provenance{version: version, compiler: g.compiler, flags: strings.Join(compileFlags(), " ")}
	for i, t := range g.targets {
		if i > 0 {
			p.targets += ","
		}
		p.targets += t.String()
	}
	p.files = g.inputs
	for _, path := range g.outputs {
		rel, err := filepath.Rel(g.root, path)
		if err != nil {
			return nil, err
		}
		f, err := digest(g.root, filepath.ToSlash(rel))
		if err != nil {
			return nil, err
		}
		f.output = true
		p.files = append(p.files, f)
	}
	return p, nil
}

func digest(root, path string) (fileDigest, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return fileDigest{}, err
	}
	return fileDigest{path: path, size: len(data), sum: fmt.Sprintf("%x", sha256.Sum256(data))}, nil
}

// parseProvenance reads the record in a generated file.
func parseProvenance(src string) (*provenance, error) {
	var p provenance
	for line := range strings.Lines(src) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix)
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(rest, " ")
		switch key {
		case "version":
			p.version = value
		case "compiler":
			p.compiler = value
		case "target":
			p.targets = value
		case "flags":
			p.flags = value
		case "input", "output":
			f := strings.SplitN(value, " ", 3)
			if len(f) != 3 {
				return nil, fmt.Errorf("record line %q is damaged", line)
			}
			size, err := strconv.Atoi(f[1])
			if err != nil {
				return nil, fmt.Errorf("record line %q is damaged", line)
			}
			p.files = append(p.files, fileDigest{key == "output", f[2], size, f[0]})
		default:
			return nil, fmt.Errorf("record line %q is unknown", line)
		}
	}
	if len(p.files) == 0 {
		return nil, errors.New("has no record")
	}
	return &p, nil
}

// verify compares a generated file with the files in its record and says what
// changed since. It returns the outputs in the record.
func verify(root, path string) (outputs []string, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	stale := func(format string, args ...any) error {
		return fmt.Errorf("%s is stale: %s; run go generate ./%s", filepath.ToSlash(rel), fmt.Sprintf(format, args...), filepath.ToSlash(filepath.Dir(rel)))
	}
	p, err := parseProvenance(string(src))
	if err != nil {
		return nil, stale("%v", err)
	}
	var errs []error
	if p.version != version {
		errs = append(errs, stale("made by version %s of kernelgen, now %s", p.version, version))
	}
	if flags := strings.Join(compileFlags(), " "); p.flags != flags {
		errs = append(errs, stale("the flags changed from %q to %q", p.flags, flags))
	}
	for _, want := range p.files {
		if want.output {
			outputs = append(outputs, filepath.Join(root, filepath.FromSlash(want.path)))
		}
		got, err := digest(root, want.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, stale("%s is gone", want.path))
		case err != nil:
			errs = append(errs, err)
		case got.sum != want.sum || got.size != want.size:
			errs = append(errs, stale("%s changed", want.path))
		}
	}
	return outputs, errors.Join(errs...)
}

// verifyTree verifies every generated file below dir, and that no PTX, structs
// or source lie there without one.
func verifyTree(root, dir string) error {
	t := tree{root: root, recorded: map[string]bool{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || name == "testdata" || name == "out") {
				return fs.SkipDir
			}
			return nil
		}
		return t.file(path)
	})
	for _, path := range t.outputs {
		if !t.recorded[path] {
			t.complain("%s is in no record: remove it, or run go generate ./%s", path, filepath.Dir(path))
		}
	}
	return errors.Join(append(t.errs, err)...)
}

// tree is what has been found in one.
type tree struct {
	root     string
	outputs  []string        // that need a record elsewhere
	recorded map[string]bool // outputs that have one
	errs     []error
}

// complain notes an error about files, which it names relative to the root.
func (t *tree) complain(format string, paths ...string) {
	args := make([]any, len(paths))
	for i, path := range paths {
		rel, _ := filepath.Rel(t.root, path)
		args[i] = filepath.ToSlash(rel)
	}
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

// file verifies one that has a record, and notes others that need one.
func (t *tree) file(path string) error {
	switch {
	case strings.HasSuffix(path, "_params_gen.go"):
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(src), "\n"+prefix) {
			t.outputs = append(t.outputs, path)
			return nil
		}
		fallthrough
	case strings.HasSuffix(path, "_ptx_gen.go"):
		outputs, err := verify(t.root, path)
		if err != nil {
			t.errs = append(t.errs, err)
		}
		for _, o := range outputs {
			t.recorded[o] = true
		}
	case strings.HasSuffix(path, ".ptx"):
		t.outputs = append(t.outputs, path)
	case strings.HasSuffix(path, ".cu"):
		gen := strings.TrimSuffix(path, ".cu") + "_ptx_gen.go"
		if _, err := os.Stat(gen); err != nil {
			t.complain("%s has not been compiled: there is no %s; run go generate ./%s", path, gen, filepath.Dir(path))
		}
	}
	return nil
}
