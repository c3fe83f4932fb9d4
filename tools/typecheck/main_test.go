package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a package has an error in its files for one system, the check fails for this system only.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.com/m\n\ngo 1.26\n",
		"m.go":              "package m\n",
		"m_windows.go":      "package m\n\nvar size int = \"one\"\n",
		"m_darwin_test.go":  "package m\n\nfunc f() int {}\n",
		"nested/go.mod":     "module example.com/m/nested\n",
		"nested/nothing.go": "package nested\n\nbroken\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	for system, want := range map[string]string{
		"linux/arm64":   "",
		"windows/amd64": "m_windows.go:3:16: cannot use",
		"darwin/arm64":  "m_darwin_test.go:3:15: missing return",
		"plan10/amd64":  "plan10",
		"linux":         "want GOOS/GOARCH",
	} {
		_, err := check(system, []string{"./..."})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", system, err, want)
		}
	}
	if _, err := check("linux/arm64", []string{"./absent/..."}); err == nil {
		t.Error("no packages are enough")
	}
}
