package kernelgen

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weftgo/weft/internal/kernelgen/cstruct"
)

// options are the options of one generation.
type options struct {
	module
	source     string // absolute path of the .cu file or of the header
	dir        string // directory of the outputs
	pkg        string
	clang      string // requested compiler, or "" to look for one
	targets    []target
	widths     []variant
	types      map[string]string // Go type for some C++ structs
	structs    []string          // structs of a header to generate
	include    []string          // directories of headers, relative to the module's root
	define     []string          // macro definitions
	export     bool
	loader     bool // whether to generate a loader
	allowLocal bool
}

// stem returns the name of the source without directory and extension.
func (o *options) stem() string {
	return strings.TrimSuffix(filepath.Base(o.source), filepath.Ext(o.source))
}

// path returns the path of the output with this suffix.
func (o *options) path(suffix string) string { return filepath.Join(o.dir, o.stem()+suffix) }

// variants returns the variants to compile. A source without variants has the one variant "".
func (o *options) variants() []variant {
	if len(o.widths) == 0 {
		return []variant{""}
	}
	return o.widths
}

// maxSize is the maximum size of a PTX file in weft's repository.
const maxSize = 1 << 20

// generate makes all outputs of one source. No file changes before all outputs are made. After a
// failure the old files remain, and verify reports them as stale.
func generate(ctx context.Context, o options) error {
	cc, err := newCompiler(ctx, &o)
	if err != nil {
		return err
	}
	cleanup, err := cc.unpackHeaders()
	if err != nil {
		return err
	}
	defer cleanup()
	g := generated{options: o, compiler: cc.version, params: map[string]string{}, structs: cstruct.Package{Export: o.export, Types: o.types, Known: o.known()}}
	if len(o.structs) > 0 {
		cc.text = stub(cc.source, o.structs)
	}
	inputs, err := cc.inputs()
	if err != nil {
		return err
	}
	// The inputs are read before they are compiled, so that a concurrent change makes the outputs
	// stale.
	for _, path := range inputs {
		f, err := o.digestInput(path)
		if err != nil {
			return err
		}
		g.inputs = append(g.inputs, f)
	}
	for _, v := range o.variants() {
		if err := g.addImage(cc, v); err != nil {
			return err
		}
	}
	if unused := g.structs.Unused(); len(unused) > 0 {
		return fmt.Errorf("-type: no kernel takes the struct %s", unused[0])
	}
	if err := g.checkCollisions(); err != nil {
		return err
	}
	if err := g.write(); err != nil {
		return err
	}
	return removeOutputs(&o, g.outputs)
}

// stub returns a source with one kernel for each struct of a header. The kernel takes the struct as
// its parameter.
func stub(header string, structs []string) string {
	text := fmt.Sprintf("#include %q\n", header)
	for i, s := range structs {
		text += fmt.Sprintf("extern \"C\" __attribute__((global)) void %s(%s) {}\n", stubKernel(i), s)
	}
	return text
}

func stubKernel(i int) string { return fmt.Sprintf("struct_%d", i) }

// addImage compiles a variant for all targets, and reads the structs that its kernels take. For a
// header it only reads the structs that the kernels of the stub take.
func (g *generated) addImage(cc *compiler, v variant) error {
	im := image{variant: v}
	if len(g.options.structs) == 0 {
		for _, t := range g.targets {
			text, err := cc.compile(t, v)
			if err != nil {
				return err
			}
			if err := g.addPTX(&im, t, text); err != nil {
				return err
			}
		}
		if err := g.checkMethods(&im); err != nil {
			return err
		}
		g.images = append(g.images, im)
	}
	text, err := cc.debug(v)
	if err != nil {
		return err
	}
	info, err := cstruct.Read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", cc.source, err)
	}
	for i := range g.options.structs {
		if err := g.addHeaderStruct(info, stubKernel(i)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(im.kernels)) {
		if err := g.addParams(info, v, im.kernels[name]); err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
	}
	return nil
}

// addHeaderStruct adds the struct of a header that a kernel of the stub takes.
func (g *generated) addHeaderStruct(info *cstruct.Info, kernel string) error {
	params, err := info.Parameters(kernel)
	if err != nil {
		return err
	}
	if len(params) != 1 || params[0].Type.Struct == nil {
		return fmt.Errorf("%s: -struct: want the name of a struct, found another type", g.stem())
	}
	_, err = g.structs.Add(params[0].Type.Struct)
	return err
}

// addParams adds the struct that a kernel takes. If the kernel takes other parameters, it adds a
// struct that has the parameters as fields. A kernel without parameters has no struct.
func (g *generated) addParams(info *cstruct.Info, v variant, e entry) error {
	fields, err := info.Parameters(e.name)
	if err != nil {
		return err
	}
	if len(fields) != len(e.params) {
		return fmt.Errorf("has %d parameters in the source, but %d in PTX", len(fields), len(e.params))
	}
	if len(fields) == 0 {
		return nil
	}
	s := fields[0].Type.Struct
	if len(fields) > 1 || s == nil {
		for i := range fields {
			fields[i].Offset = e.params[i].offset
			if n := fields[i].Type.Bytes(); n != e.params[i].size {
				return fmt.Errorf("parameter %s has %d bytes in the source, but %d in PTX", fields[i].Name, n,
					e.params[i].size)
			}
		}
		s = cstruct.Parameters(strings.TrimSuffix(e.name, v.suffix()), g.methodName(e.name, v)+"Params", fields)
	} else if s.Size != e.size {
		return fmt.Errorf("struct %s has %d bytes in the source, but %d in PTX", s.Name, s.Size, e.size)
	}
	name, err := g.structs.Add(s)
	if err != nil {
		return err
	}
	g.params[e.name] = name
	return nil
}

// removeOutputs removes those outputs of the source that are not in made. They belong to targets or
// variants that no longer exist.
func removeOutputs(o *options, made []string) error {
	old, err := filepath.Glob(o.path("_*"))
	if err != nil {
		return err
	}
	output := regexp.MustCompile(`^` + regexp.QuoteMeta(o.stem()) + `((_\d+_\d+)?_sm\d+\.ptx|_(ptx|params)_gen\.go)$`)
	for _, f := range old {
		if !output.MatchString(filepath.Base(f)) || slices.Contains(made, f) {
			continue
		}
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// addPTX checks the compiler's output for one target of a variant, and adds it to the image.
func (g *generated) addPTX(im *image, t target, text string) error {
	name := g.stem() + im.variant.suffix()
	p, err := parsePTX(text)
	if err != nil {
		return fmt.Errorf("%s for sm_%d: %w", name, t.arch, err)
	}
	p.text = fmt.Sprintf("// Code generated by %s from %s.cu for sm_%d. DO NOT EDIT.\n", g.generator(), g.stem(), t.arch) + p.text
	if len(p.local) > 0 && !g.allowLocal {
		return fmt.Errorf("%s for sm_%d: local memory in %s: the source indexes an array by a variable, or takes the address of an array; unroll the loop, or set -allow-local",
			name, t.arch, strings.Join(p.local, ", "))
	}
	if g.isWeft() && len(p.text) > maxSize {
		return fmt.Errorf("%s for sm_%d: %d bytes of PTX, want at most %d; instantiate fewer kernels or split the file", name, t.arch, len(p.text), maxSize)
	}
	kernels := make(map[string]entry)
	for _, e := range p.entries {
		if err := g.checkName(im, e.name); err != nil {
			return err
		}
		kernels[e.name] = e
	}
	if im.kernels != nil && !maps.EqualFunc(im.kernels, kernels, entry.equal) {
		return fmt.Errorf("%s for sm_%d has other kernels or parameters than for sm_%d; put #if inside the body of a kernel, not around the kernel",
			name, t.arch, g.targets[0].arch)
	}
	im.kernels = kernels
	im.codes = append(im.codes, im.share(code{text: p.text, owner: len(im.codes)}))
	return nil
}

// checkName returns an error if the name of a kernel is invalid. Without a loader, the name must
// have the form that [device.Image.Entry] returns.
func (g *generated) checkName(im *image, name string) error {
	if !strings.HasSuffix(name, im.variant.suffix()) {
		return fmt.Errorf("kernel %s: with -widths, its name must end with %q", name, im.variant.suffix())
	}
	if !g.loader && !strings.HasPrefix(name, g.stem()+"_") {
		return fmt.Errorf("kernel %s: with -loader=false, its name must begin with %s_", name,
			g.stem())
	}
	return nil
}
