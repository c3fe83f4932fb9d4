package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// minimal is a program that uses one map on the CPU and nothing else.
const minimal = `package main

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

func main() {
	dev, err := cpu.Open(nil)
	if err != nil {
		panic(err)
	}
	m, err := linear.New[uint64, uint64](dev, nil)
	if err != nil {
		panic(err)
	}
	n, err := m.Put(context.Background(), []uint64{1, 2}, []uint64{3, 4})
	fmt.Println(n, err)
}
`

// programFigures returns the figures of command weft and of the minimal program.
func programFigures() ([]figure, error) {
	dir, err := os.MkdirTemp("", "budget")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	small := filepath.Join(dir, "main.go")
	if err := os.WriteFile(small, []byte(minimal), 0o666); err != nil {
		return nil, err
	}
	var all []figure
	for _, p := range []struct{ name, path string }{{"weft", "./cmd/weft"}, {"minimal", small}} {
		figures, err := linkFigures(p.name, p.path, dir)
		if err != nil {
			return nil, err
		}
		all = append(all, figures...)
	}
	return all, nil
}

// linkFigures returns the number of packages that a program links, without the standard library,
// and the bytes of their objects. It also returns the size of the binary with and without symbols.
// Whether objects and binaries contain DWARF depends on GOFLAGS.
func linkFigures(name, program, dir string) ([]figure, error) {
	out, err := output("go", "list", "-deps", "-export",
		"-json=ImportPath,Standard,Export,Module", program)
	if err != nil {
		return nil, err
	}
	packages := figure{name: name + ".packages", parts: make(map[string]int64)}
	objects := figure{name: name + ".objects", parts: make(map[string]int64)}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			ImportPath, Export string
			Standard           bool
			Module             *struct{ Path string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Standard || p.Module == nil { // a file named on the command line has no module
			continue
		}
		info, err := os.Stat(p.Export)
		if err != nil {
			return nil, fmt.Errorf("object of %s: %w", p.ImportPath, err)
		}
		objects.add(strings.TrimPrefix(p.ImportPath, library), info.Size())
		packages.add(strings.TrimPrefix(p.Module.Path, library), 1)
	}
	figures := []figure{packages, objects}
	for _, b := range []struct{ suffix, flags string }{{"binary", ""}, {"stripped", "-s -w"}} {
		binary := filepath.Join(dir, name+"."+b.suffix)
		if _, err := output("go", "build", "-ldflags="+b.flags, "-o", binary, program); err != nil {
			return nil, err
		}
		info, err := os.Stat(binary)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{name + "." + b.suffix, info.Size(), objects.parts})
	}
	return figures, nil
}

// library is the common prefix of the paths of all weft packages except the root.
const library = "github.com/weftgo/weft/"

func (f *figure) add(part string, n int64) {
	f.value += n
	f.parts[part] += n
}

// output runs a command and returns its output. If the command fails, the error contains its error
// output.
func output(args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, &complaints)
	}
	return string(out), nil
}
