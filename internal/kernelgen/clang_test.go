package kernelgen

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// haveClang returns an error if tests cannot compile kernels.
func haveClang() error {
	program := os.Getenv("WEFT_CLANG")
	if program == "" {
		program = clangs[0]
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("no %s here (apt-get install clang-19)", program)
	}
	return nil
}

// fakes makes a directory of programs that each print a line, and sets PATH to it.
func fakes(t *testing.T, lines map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, line := range lines {
		script := "#!/bin/sh\necho '" + line + "'\n"
		if line == "" {
			script = "#!/bin/sh\nexit 3\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestFindClang(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the compilers of this test are shell scripts")
	}
	const debian = "Debian clang version 14.0.6"
	for _, c := range []struct {
		name     string
		programs map[string]string
		asked    string
		own      bool
		want     string // program, or part of the error
		fails    bool
	}{
		{"none", nil, "", false, "looked for clang-19, clang-20, clang-21, clang-22, clang; install clang 19 (Debian, Ubuntu: apt-get install clang-19", true},
		{"the one asked for is missing", nil, "clang-of-nowhere", false, "clang-of-nowhere does not run", true},
		{"too old", map[string]string{"clang": debian}, "", false, "clang is clang version 14.0.6, too old: weftgen needs clang 19 or newer; install", true},
		{"the one asked for is too old", map[string]string{"clang-14": debian, "clang-19": "clang version 19.1.7"}, "clang-14", false, "too old", true},
		{"a newer one beside an old one", map[string]string{"clang": debian, "clang-21": "clang version 21.1.0"}, "", false, "clang-21", false},
		{"the usual one", map[string]string{"clang": "clang version 20.1.2", "clang-19": "clang version 19.1.7"}, "", false, "clang-19", false},
		{"unversioned", map[string]string{"clang": "clang version 20.1.2"}, "", false, "clang", false},
		{"Apple's", map[string]string{"clang": "Apple clang version 21.0.0"}, "", false, "Apple's clang, which cannot compile to PTX", true},
		{"something else", map[string]string{"clang": "gcc version 14"}, "", false, `clang is not clang: clang --version prints "gcc version 14"`, true},
		{"broken", map[string]string{"clang-19": ""}, "", false, "clang-19 does not run: exit status 3", true},
		{"another for weft itself", map[string]string{"clang": "clang version 20.1.2"}, "clang", true, "weft's own kernels are built with clang 19", true},
		{"none for weft itself", map[string]string{"clang": "clang version 19.1.7"}, "", true, "looked for clang-19; install", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakes(t, c.programs)
			program, version, err := findClang(t.Context(), c.asked, c.own)
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil || program != c.want || !strings.HasPrefix(version, "clang version ") {
				t.Errorf("got %s (%s), %v; want %s", program, version, err, c.want)
			}
		})
	}
}

func TestPrerequisites(t *testing.T) {
	got := prerequisites("x: a.cu \\\n  my\\ dir/b.cuh c.cuh\n")
	if want := []string{"a.cu", "my dir/b.cuh", "c.cuh"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}
