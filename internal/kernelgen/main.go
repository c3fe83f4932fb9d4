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
//
// # Parameters
//
// Every kernel is named after the file (linear_get_32_32) and takes one
// struct by value. The struct has a twin in Go: GetParams of linear.cu, or
// GetParams<K, V>, is getParams in the room's package, with
// structs.HostLayout and the same fields in the same order, named alike but
// for case and underscores. A twin that rooms share is an alias there of a
// struct with exported fields in another package. kernelgen compares the names with clang's layout
// of the struct and writes the sizes and offsets into the generated file as
// assertions that the Go compiler checks. So a field swapped, resized or
// forgotten on either side does not compile, or does not generate.
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
	"path/filepath"
)

// version of the generator; raise it when its output changes.
const version = "2"

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
		fmt.Fprintf(flags.Output(), "usage: kernelgen [flags] file.cu\n       kernelgen -check [directory]\n")
		flags.PrintDefaults()
	}
	var (
		o      options
		check  = flags.Bool("check", false, "compare the generated files below a directory (default: the module) with their inputs")
		target = flags.String("target", defaultTargets, "architectures, each with the `version` of PTX if not clang's default")
	)
	flags.StringVar(&o.clang, "clang", envOr("WEFT_CLANG", "clang-19"), "compiler; default from WEFT_CLANG")
	flags.StringVar(&o.pkg, "package", os.Getenv("GOPACKAGE"), "package of the generated file; go generate sets it")
	flags.BoolVar(&o.export, "export", false, "export the names of the image and the kernels")
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
	if flags.NArg() != 1 || filepath.Ext(flags.Arg(0)) != ".cu" {
		flags.Usage()
		return errors.New("want one .cu file")
	}
	if o.targets, err = parseTargets(*target); err != nil {
		return err
	}
	if o.source, err = filepath.Abs(flags.Arg(0)); err != nil {
		return err
	}
	if o.pkg == "" {
		return errors.New("no package name: run by go generate, or give -package")
	}
	o.root = root
	return generate(o)
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
