package kernelgen

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// camel converts a C++ name to a Go name: get_all to GetAll or getAll.
func camel(name string, export bool) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" && (b.Len() > 0 || export) {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

// methodName returns the name of the method that launches a kernel: Scale for saxpy_scale and for
// scale.
func (g *generated) methodName(kernel string, v variant) string {
	name := strings.TrimSuffix(kernel, v.suffix())
	if rest := strings.TrimPrefix(name, g.stem()+"_"); strings.Trim(rest, "_0123456789") != "" {
		name = rest
	}
	return camel(name, true)
}

// loadName returns the name of the function that loads the kernels. typeName returns the name of
// the function's result type.
func (g *generated) loadName() string {
	if g.export {
		return "Load" + g.ident("", true)
	}
	return "load" + g.ident("", true)
}

func (g *generated) typeName() string { return g.ident("Module", g.export) }

// loader is the data of loaderTemplate.
type loader struct {
	Type, Load, Source, Image string
	Variants                  bool
	Kernels                   []launcher
}

// launcher describes a method that launches a kernel.
type launcher struct {
	Method, Name, Takes string
}

var loaderTemplate = template.Must(template.New("").Parse(`
// {{.Type}} is {{.Source}}, loaded on a device. Its methods launch the kernels.
type {{.Type}} struct {
	kernels [{{len .Kernels}}]device.Kernel
}

// {{.Load}} loads {{if .Variants}}one of {{end}}{{.Image}} on a device{{if .Variants}}, by its pair of widths{{end}}. The error is
// device.ErrNoKernels on one that runs Go code only.
func {{.Load}}(dev device.Device{{if .Variants}}, widths string{{end}}) (*{{.Type}}, error) {
{{- if .Variants}}
	image := {{.Image}}[widths]
	if image == nil {
		return nil, fmt.Errorf("%w: {{.Source}} is not compiled for widths %q", device.ErrInvalid, widths)
	}
	loaded, err := dev.Load(image)
{{- else}}
	loaded, err := dev.Load(&{{.Image}})
{{- end}}
	if err != nil {
		return nil, err
	}
	var m {{.Type}}
	for i, name := range [...]string{ {{- range $i, $k := .Kernels}}{{if $i}}, {{end}}"{{$k.Name}}"{{end -}} } {
		if m.kernels[i], err = loaded.Kernel(name{{if .Variants}} + "_" + widths{{end}}); err != nil {
			return nil, err
		}
	}
	return &m, nil
}
{{range $i, $k := .Kernels}}
// {{$k.Method}} launches kernel {{$k.Name}}{{if $.Variants}} of the pair of widths{{end}}.
func (m *{{$.Type}}) {{$k.Method}}(s *device.Stream, grid, block device.Dim{{if $k.Takes}}, params *{{$k.Takes}}{{end}}) error {
	return device.Launch(s, m.kernels[{{$i}}], grid, block, {{if $k.Takes}}params{{else}}&struct{}{}{{end}})
}
{{end}}`))

// writeLoader writes the type with the methods that launch the kernels. All variants have the same
// methods.
func (g *generated) writeLoader(b *bytes.Buffer) error {
	l := loader{Type: g.typeName(), Load: g.loadName(), Source: g.stem() + ".cu", Image: g.ident("Image", g.export), Variants: len(g.widths) > 0}
	if l.Variants {
		l.Image = g.ident("Images", g.export)
	}
	v := g.images[0].variant
	for _, k := range slices.Sorted(maps.Keys(g.images[0].kernels)) {
		l.Kernels = append(l.Kernels, launcher{g.methodName(k, v), strings.TrimSuffix(k, v.suffix()), g.params[k]})
	}
	return loaderTemplate.Execute(b, l)
}

// checkMethods returns an error if two kernels have the same method name, or if the variants have
// different kernels.
func (g *generated) checkMethods(im *image) error {
	if !g.loader {
		return nil
	}
	kernels := map[string]string{} // kernel by method
	for _, k := range slices.Sorted(maps.Keys(im.kernels)) {
		method := g.methodName(k, im.variant)
		if other := kernels[method]; other != "" {
			return fmt.Errorf("kernels %s and %s would both be method %s in Go; rename one", other, k, method)
		}
		kernels[method] = k
	}
	if len(g.images) == 0 {
		return nil
	}
	first := g.images[0]
	for k := range first.kernels {
		if kernels[g.methodName(k, first.variant)] == "" || len(kernels) != len(first.kernels) {
			return fmt.Errorf("widths %s and %s have different kernels, but share one loader; put #if inside the body of a kernel, not around the kernel, or set -loader=false", first.variant, im.variant)
		}
	}
	return nil
}
