package kernelgen

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// version is the version of the generator. Increment it when the output changes.
const version = "3"

// defaultTarget can run on every GPU that weft supports. Its PTX version is that of weft's kernels.
const defaultTarget = "80+ptx83"

// These are the exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

//go:embed help.txt
var help string

// usageError reports an invalid command line.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Command runs weftgen with the given arguments in the current directory. It returns the exit
// status.
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, help); err != nil {
			return exitFailed
		}
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "weftgen: %v\ntry 'weftgen --help'\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "weftgen: %v\n", err)
	return exitFailed
}

// arguments is the parsed command line.
type arguments struct {
	options
	check           bool
	targets, widths string
	files           []string
}

func parseArguments(args []string) (*arguments, error) {
	a := &arguments{options: options{types: map[string]string{}}}
	flags := flag.NewFlagSet("weftgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	// help.txt describes the flags.
	flags.StringVar(&a.pkg, "package", os.Getenv("GOPACKAGE"), "")
	flags.StringVar(&a.targets, "target", defaultTarget, "")
	flags.StringVar(&a.widths, "widths", "", "")
	flags.BoolVar(&a.export, "export", false, "")
	flags.BoolVar(&a.loader, "loader", true, "")
	flags.BoolVar(&a.allowLocal, "allow-local", false, "")
	flags.StringVar(&a.clang, "clang", os.Getenv("WEFT_CLANG"), "")
	flags.BoolVar(&a.check, "check", false, "")
	repeated := func(name string, list *[]string) {
		flags.Func(name, "", func(s string) error {
			*list = append(*list, s)
			return nil
		})
	}
	flags.Func("type", "", a.addType)
	repeated("struct", &a.structs)
	repeated("I", &a.include)
	repeated("D", &a.define)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, usageError{err}
	}
	a.files = flags.Args()
	return a, nil
}

func run(ctx context.Context, args []string) error {
	a, err := parseArguments(args)
	if err != nil {
		return err
	}
	if a.module, err = findModule("."); err != nil {
		return err
	}
	if a.check {
		return a.verify()
	}
	if err := a.complete(); err != nil {
		return err
	}
	return generate(ctx, a.options)
}

// verify implements weftgen -check.
func (a *arguments) verify() error {
	switch len(a.files) {
	case 0:
		return a.verifyTree(a.root)
	case 1:
		return a.verifyTree(a.files[0])
	}
	return usage("-check: want one directory, or none for the whole module, got %d", len(a.files))
}

// complete derives the options from the command line, and checks them.
func (a *arguments) complete() (err error) {
	if len(a.files) != 1 {
		return usage("want one source, got %d: name a .cu file, or a .cuh file with -struct", len(a.files))
	}
	source := a.files[0]
	if want := a.extension(); filepath.Ext(source) != want {
		if want == ".cu" {
			return usage("%s: want a source with a name that ends in .cu; for a header, add -struct", source)
		}
		return usage("%s: want a header with a name that ends in .cuh for -struct", source)
	}
	if name := filepath.Base(source); name[0] == '_' || name[0] == '.' {
		return usage("%s: Go ignores files with names that begin with %q; rename the source", source, name[:1])
	}
	if a.options.targets, err = parseTargets(a.targets); err != nil {
		return usageError{err}
	}
	if a.options.widths, err = parseWidths(a.widths); err != nil {
		return usageError{err}
	}
	if stem := strings.TrimSuffix(filepath.Base(source), a.extension()); !token.IsIdentifier(camel(stem, false) + "Image") {
		return usage("%s: the generated name %sImage is not valid in Go; rename the source", source, camel(stem, false))
	}
	if _, err := os.Stat(source); err != nil {
		return err
	}
	if a.source, err = filepath.Abs(source); err != nil {
		return err
	}
	// For -struct, the outputs go to the current directory, not to that of the header.
	a.dir = filepath.Dir(a.source)
	if len(a.structs) > 0 {
		if a.dir, err = filepath.Abs("."); err != nil {
			return err
		}
	}
	if err := a.qualifyTypes(); err != nil {
		return err
	}
	if err := a.includeDirs(); err != nil {
		return err
	}
	if a.pkg == "" {
		a.pkg, err = packageName(a.dir)
		return err
	}
	if !token.IsIdentifier(a.pkg) {
		return usage("-package %s: want a valid name of a Go package", a.pkg)
	}
	return nil
}

// extension returns the file extension that the source must have.
func (o *options) extension() string {
	if len(o.structs) > 0 {
		return ".cuh"
	}
	return ".cu"
}

// addType parses a -type flag such as "weft::List=internal/gpubatch.List".
func (o *options) addType(s string) error {
	cpp, name, ok := strings.Cut(s, "=")
	if !ok || cpp == "" || name == "" {
		return errors.New("want C++=Go, such as Table=tableRef")
	}
	o.types[cpp] = name
	return nil
}

// qualifyTypes replaces directories of this module in -type flags by import paths.
func (o *options) qualifyTypes() error {
	for cpp, name := range o.types {
		dir, base := path.Split(name)
		first, _, _ := strings.Cut(dir, "/")
		if pkg, _, qualified := strings.Cut(base, "."); !qualified || pkg == "" || strings.Contains(first, ".") {
			continue
		}
		pkg, _, _ := strings.Cut(base, ".")
		if _, err := os.Stat(filepath.Join(o.root, dir, pkg)); err != nil {
			return usage("-type %s=%s: this module has no directory %s%s; for a package of another module, use its import path", cpp, name, dir, pkg)
		}
		o.types[cpp] = o.module.path + "/" + name
	}
	return nil
}
