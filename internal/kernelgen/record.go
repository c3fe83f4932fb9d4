package kernelgen

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftgo/weft/kernels"
)

// provenance is the record of the inputs and outputs of one source. It shows without a compiler
// whether the outputs are up to date.
type provenance struct {
	version     string
	compiler    string
	targets     string
	flags       string
	sourceFlags string       // -I and -D flags that the source needs
	files       []fileDigest // first the inputs, then the outputs
}

// These are the kinds of files in a record.
const (
	inputFile  = "input"
	headerFile = "header" // header of weft, in other modules
	outputFile = "output"
)

// fileDigest identifies the contents that a file had at generation.
type fileDigest struct {
	kind string
	path string // relative to the module's root, or as kernels include it; with slashes
	size int
	sum  string // SHA-256 in hexadecimal
}

// generator returns the name of the generator in generated files. Weft's own files name the
// package, as they did before the command existed. So their PTX is, byte for byte, the PTX with
// which the results in folder lab were measured.
func (m *module) generator() string {
	if m.isWeft() {
		return "kernelgen"
	}
	return "weftgen"
}

// prefix begins each line of a record. The line is then a directive for the Go tools, and not a
// part of the documentation.
func (m *module) prefix() string { return "//" + m.generator() + ":" }

// text returns the lines of the record, each with a prefix.
func (p *provenance) text(prefix string) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s%s %s\n", prefix, key, value) }
	line("version", p.version)
	line("compiler", p.compiler)
	line("target", p.targets)
	line("flags", p.flags)
	if p.sourceFlags != "" {
		line("more", p.sourceFlags)
	}
	for _, f := range p.files {
		line(f.kind, fmt.Sprintf("%s %d %s", f.sum, f.size, f.path))
	}
	return b.String()
}

// record returns the record of this generation.
func (g *generated) record() (*provenance, error) {
	p := &provenance{version: version, compiler: g.compiler, flags: strings.Join(g.compileFlags(), " "), sourceFlags: strings.Join(g.sourceFlags(), " ")}
	for i, t := range g.targets {
		if i > 0 {
			p.targets += ","
		}
		p.targets += t.String()
	}
	p.files = g.inputs
	for _, path := range g.outputs {
		rel, err := g.relative(path)
		if err != nil {
			return nil, err
		}
		f, err := g.digest(outputFile, rel)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// digest returns the digest of a file in a record.
func (m *module) digest(kind, path string) (fileDigest, error) {
	fsys := os.DirFS(m.root)
	if kind == headerFile {
		fsys = kernels.Headers()
	}
	data, err := fs.ReadFile(fsys, path)
	if err != nil {
		return fileDigest{}, err
	}
	return fileDigest{kind, path, len(data), fmt.Sprintf("%x", sha256.Sum256(data))}, nil
}

// parseProvenance parses the record in a generated file.
func parseProvenance(src, prefix string) (*provenance, error) {
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
		case "more":
			p.sourceFlags = value
		case inputFile, headerFile, outputFile:
			f := strings.SplitN(value, " ", 3)
			if len(f) != 3 {
				return nil, fmt.Errorf("record line %q is damaged", line)
			}
			size, err := strconv.Atoi(f[1])
			if err != nil {
				return nil, fmt.Errorf("record line %q is damaged", line)
			}
			p.files = append(p.files, fileDigest{key, f[2], size, f[0]})
		default:
			return nil, fmt.Errorf("record line %q is unknown", line)
		}
	}
	if len(p.files) == 0 {
		return nil, errors.New("has no record")
	}
	return &p, nil
}

// verify compares the files in a record with their digests and returns an error that lists the
// changes. It also returns the outputs in the record.
func (o *options) verify(path string) (outputs []string, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := o.relative(path)
	if err != nil {
		return nil, err
	}
	stale := func(format string, args ...any) error {
		return fmt.Errorf("%s is stale: %s; run %s", rel, fmt.Sprintf(format, args...),
			generateCommand(filepath.Dir(rel)))
	}
	p, err := parseProvenance(string(src), o.prefix())
	if err != nil {
		return nil, stale("%v", err)
	}
	var errs []error
	if p.version != version {
		errs = append(errs, stale("made by version %s of %s, and this is version %s", p.version, o.generator(), version))
	}
	if flags := strings.Join(o.compileFlags(), " "); p.flags != flags {
		errs = append(errs, stale("the flags changed from %q to %q", p.flags, flags))
	}
	for _, want := range p.files {
		if want.kind == outputFile {
			outputs = append(outputs, filepath.Join(o.root, filepath.FromSlash(want.path)))
		}
		got, err := o.digest(want.kind, want.path)
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

// verifyTree verifies every record below dir. It also reports PTX files and structs that no record
// lists, and sources that have not been compiled.
func (o *options) verifyTree(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	t := tree{options: o, recorded: map[string]bool{}}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
				return fs.SkipDir
			}
			return nil
		}
		return t.verifyFile(path)
	})
	for _, path := range t.outputs {
		if !t.recorded[path] {
			t.addError("%s is not in a record: remove it, or run %s", path,
				generateCommand(filepath.Dir(path)))
		}
	}
	return errors.Join(append(t.errs, err)...)
}

// skipped are the names of directories that hold no files of the module.
var skipped = []string{"testdata", "vendor", "out"}

// tree is the result of verifyTree's walk.
type tree struct {
	options  *options
	outputs  []string        // outputs that must be in a record
	recorded map[string]bool // outputs that are in a record
	errs     []error
}

// addError adds an error about files, with paths relative to the module's root.
func (t *tree) addError(format string, paths ...string) {
	args := make([]any, len(paths))
	for i, path := range paths {
		rel, _ := filepath.Rel(t.options.root, path)
		args[i] = filepath.ToSlash(rel)
	}
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

// verifyFile verifies a file if it holds a record. If the file must be in a record, it adds the
// file to outputs.
func (t *tree) verifyFile(path string) error {
	switch {
	case strings.HasSuffix(path, "_params_gen.go"):
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(src), "\n"+t.options.prefix()) {
			t.outputs = append(t.outputs, path)
			return nil
		}
		fallthrough
	case strings.HasSuffix(path, "_ptx_gen.go"):
		outputs, err := t.options.verify(path)
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
			t.addError("%s has not been compiled: %s does not exist; run %s", path, gen,
				generateCommand(filepath.Dir(path)))
		}
	}
	return nil
}

// generateCommand returns the command that makes the outputs in a folder. Folder lab is a separate
// module.
func generateCommand(folder string) string {
	folder = filepath.ToSlash(folder)
	if folder == "lab" || strings.HasPrefix(folder, "lab/") {
		return "GOWORK=off go -C " + folder + " generate"
	}
	return "go generate ./" + folder
}
