// Command kernelgen compiles the kernels of a room and records how. It is run
// by go generate from the room's directory:
//
//	//go:generate go run ../internal/kernelgen linear.cu
//
// From linear.cu it makes, all to be committed:
//
//	linear_sm80.ptx, linear_sm90.ptx   what the driver loads
//	linear_ptx_gen.go                  linearImage, which embeds them;
//	                                   linearKernels, the entry points and
//	                                   the size of the struct each takes;
//	                                   and the record of inputs and outputs
//	linear_params_gen.go               the structs that the kernels take
//
// # Parameters
//
// Every kernel is named after the file (linear_get) and takes one struct by
// value, of which a Go struct is made: getParams of GetParams, or of
// GetParams<K, V> if all instances are alike. The same goes for structs within
// it; see package cstruct. With -type weft::linear::Table=tableRef the Go struct
// gets another name. With -type weft::Allocator=.Ref it is one that the package
// has already, by hand or of another source, and with -type weft::List=internal/gpubatch.List,
// a directory of this module or an import path, that of another package: it is
// compared and not made.
//
// A struct that several packages refer to is made where it belongs, of the
// header that declares it:
//
//	//go:generate go run ../kernelgen -export -struct weft::List ../../kernels/include/weft/order.cuh
//
// makes order_params_gen.go with the type List.
//
// # Images
//
// With -widths 32_32,64_0 the source is compiled once for each pair of the bits
// of a key and of a value, as WEFT_KEY_BITS and WEFT_VALUE_BITS tell it, and the
// names of its kernels end with the pair: linear_get_32_32. The images are in the
// map linearImages, by pair, so that a program has the driver compile no more
// than it uses. A package may have several sources, each with a directive of
// its own.
//
// # Freshness
//
// With -check nothing is compiled: the record in every generated file of the
// module is compared with the files named in it. The tests of this package do
// the same.
//
// The model is bpf2go of github.com/cilium/ebpf.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// version of the generator; raise it when its output changes.
const version = "3"

// defaultTargets: sm_80 for Ampere and newer at the PTX version clang gives it
// (older drivers load it), sm_90 at the version that has 128-bit atomics.
const defaultTargets = "80,90+ptx85"

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "kernelgen:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("kernelgen", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: kernelgen [flags] file.cu\n       kernelgen [flags] -struct name header.cuh\n       kernelgen -check [directory]\n")
		flags.PrintDefaults()
	}
	var (
		o      = options{types: map[string]string{}}
		widths = flags.String("widths", "", "`pairs` of widths to compile for: 32_32,64_0")
		check  = flags.Bool("check", false, "compare the generated files below a directory (default: the module) with their inputs")
		target = flags.String("target", defaultTargets, "architectures, each with the `version` of PTX if not clang's default")
	)
	flags.StringVar(&o.clang, "clang", envOr("WEFT_CLANG", "clang-19"), "compiler; default from WEFT_CLANG")
	flags.StringVar(&o.pkg, "package", os.Getenv("GOPACKAGE"), "package of the generated file; go generate sets it")
	flags.BoolVar(&o.export, "export", false, "export the names of images, kernels and structs")
	flags.Func("type", "name of a `C++=Go` struct; may be repeated", o.addType)
	flags.Func("struct", "`name` of a C++ struct to make of a header; may be repeated", func(s string) error {
		o.structs = append(o.structs, s)
		return nil
	})
	flags.BoolVar(&o.allowLocal, "allow-local", false, "accept kernels that use local memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot(".")
	if err != nil {
		return err
	}
	if *check {
		dir := root
		if flags.NArg() > 0 {
			dir = flags.Arg(0)
		}
		return verifyTree(root, dir)
	}
	if flags.NArg() != 1 || filepath.Ext(flags.Arg(0)) != o.extension() {
		flags.Usage()
		return errors.New("want one .cu file, or one .cuh file and -struct")
	}
	if o.targets, err = parseTargets(*target); err != nil {
		return err
	}
	if o.widths, err = parseWidths(*widths); err != nil {
		return err
	}
	if o.source, err = filepath.Abs(flags.Arg(0)); err != nil {
		return err
	}
	// Structs of a header may be made elsewhere than beside it.
	o.dir = filepath.Dir(o.source)
	if len(o.structs) > 0 {
		if o.dir, err = filepath.Abs("."); err != nil {
			return err
		}
	}
	if o.pkg == "" {
		return errors.New("no package name: run by go generate, or give -package")
	}
	o.root = root
	return generate(o)
}

// extension is that of the source.
func (o *options) extension() string {
	if len(o.structs) > 0 {
		return ".cuh"
	}
	return ".cu"
}

// addType takes a flag -type: "weft::List=internal/gpubatch.List".
func (o *options) addType(s string) error {
	cpp, name, ok := strings.Cut(s, "=")
	if !ok || cpp == "" || name == "" {
		return errors.New("want C++=Go")
	}
	dir, base := path.Split(name)
	if first, _, _ := strings.Cut(dir, "/"); strings.Contains(base, ".") && base[0] != '.' && !strings.Contains(first, ".") {
		name = modulePath + "/" + name // a directory of this module
	}
	o.types[cpp] = name
	return nil
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// moduleRoot is the absolute path of the closest directory upwards of dir
// with a go.mod. Records name files relative to it.
func moduleRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is in no module: there is no go.mod upwards of it", start)
		}
	}
}
