package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A module outside this repository that consists only of the code in docs/kernels.md builds and
// passes its test. With vendored modules it generates the same bytes.
func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module, its tools and its tests, twice")
	}
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("no clang-19 here (apt-get install clang-19)")
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(repository, "docs/kernels.md"))
	if err != nil {
		t.Fatal(err)
	}
	u := user{t: t, dir: t.TempDir()}
	for _, b := range blocks(string(guide)) {
		if b.name != "" {
			u.write(b.name, b.text)
			continue
		}
		for line := range strings.Lines(b.text) {
			u.run(strings.Fields(line)...)
			if strings.HasPrefix(line, "go mod init") {
				// This tree replaces the version that is not published yet.
				u.run("go", "mod", "edit", "-go=1.26", "-require=github.com/weftgo/weft@v0.0.0", "-replace=github.com/weftgo/weft="+repository)
			}
		}
	}
	u.findsRace()
	first := u.outputs()
	if len(first) != 3 {
		t.Fatalf("%d outputs", len(first))
	}
	u.run("go", "mod", "vendor")
	if _, err := os.Stat(filepath.Join(u.dir, "vendor/github.com/weftgo/weft/kernels/include/weft/builtin.cuh")); err != nil {
		t.Error(err)
	}
	for name := range first {
		if err := os.Remove(filepath.Join(u.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	u.run("go", "generate", "./...")
	for name, text := range u.outputs() {
		if text != first[name] {
			t.Errorf("%s differs with vendored modules", name)
		}
		if strings.Contains(text, u.dir) || strings.Contains(text, repository) {
			t.Errorf("%s has a path of this machine", name)
		}
	}
	u.run("go", "test", "./...")
	u.run("go", "tool", "weftgen", "-check")
	u.write("saxpy.cu", "// changed\n")
	if out, err := u.try("go", "tool", "weftgen", "-check"); err == nil || !strings.Contains(out, "saxpy.cu changed; run go generate ./.") {
		t.Errorf("a stale source: %v\n%s", err, out)
	}
}

// findsRace breaks the guide's kernel: threads also add 0 to the elements of their neighbors. It
// requires that the guide's test detects the race. With nil options the result is still right.
func (u *user) findsRace() {
	u.t.Helper()
	const right = "y[i] += a * x[i];"
	path := filepath.Join(u.dir, "saxpy.cu")
	source, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(source), right) {
		u.t.Fatalf("the guide's kernel: %v\n%s", err, source)
	}
	u.write("saxpy.cu", strings.Replace(string(source), right, "{ "+right+" if (i) y[i - 1] += 0 * x[i]; }", 1))
	u.run("go", "generate", "./...")
	if out, err := u.try("go", "test", "./..."); err == nil || !strings.Contains(out, "data race") {
		u.t.Errorf("the guide's test finds no race: %v\n%s", err, out)
	}
	u.write("saxpy.cu", string(source))
	u.run("go", "generate", "./...")
}

// block is fenced text of a guide: a file if it has a name, else commands.
type block struct{ name, text string }

var fenced = regexp.MustCompile("(?sm)(?:^`([\\w.]+)`:\n\n)?^```(\\w\\S*)\n(.*?)^```$")

// blocks returns the files and commands of a guide, in order.
func blocks(guide string) (all []block) {
	for _, m := range fenced.FindAllStringSubmatch(guide, -1) {
		if m[1] != "" || m[2] == "sh" {
			all = append(all, block{m[1], m[3]})
		}
	}
	return all
}

// user is a directory in which a test follows the guide.
type user struct {
	t   *testing.T
	dir string
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o644); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) try(command ...string) (string, error) {
	cmd := exec.CommandContext(u.t.Context(), command[0], command[1:]...)
	cmd.Dir = u.dir
	// Neither the network nor variables that go generate or go test set for this test are
	// available.
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off", "GOPACKAGE=", "WEFT_CLANG=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u *user) run(command ...string) {
	u.t.Helper()
	if out, err := u.try(command...); err != nil {
		u.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// outputs returns the generated files by name.
func (u *user) outputs() map[string]string {
	u.t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*_gen.go", "*.ptx"} {
		files, err := filepath.Glob(filepath.Join(u.dir, pattern))
		if err != nil {
			u.t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				u.t.Fatal(err)
			}
			all[filepath.Base(f)] = string(text)
		}
	}
	return all
}
