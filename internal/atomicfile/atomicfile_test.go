package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want fails unless the folder holds exactly these files.
func want(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	must(t, err)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if is, ok := files[name.Name()]; !ok || is != string(content) || err != nil {
			t.Errorf("%s has %q, %v; want %q, %v", name.Name(), content, err, is, ok)
		}
	}
	if len(names) != len(files) {
		t.Errorf("%d files, want %d", len(names), len(files))
	}
}

// A file appears with Commit, complete, and does not appear after Abort.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	must(t, os.WriteFile(name, []byte("old"), 0o604))
	must(t, os.Symlink("a", link))
	for _, to := range []string{name, link} {
		f, err := Create(to)
		must(t, err)
		_, err = f.Write([]byte("new"))
		must(t, err)
		if content, _ := os.ReadFile(name); string(content) != "old" {
			t.Errorf("%s has %q before Commit", to, content)
		}
		f.Abort()
		f.Abort()
		want(t, filepath.Dir(name), map[string]string{"a": "old", "link": "old"})
	}
}

// Commit follows a link and keeps the mode.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o604))
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	must(t, os.Symlink("b", filepath.Join(dir, "dangling")))
	for _, to := range []string{"link", "dangling", "c"} {
		must(t, WriteFile(filepath.Join(dir, to), []byte(to)))
	}
	want(t, dir, map[string]string{"a": "link", "link": "link", "b": "dangling", "dangling": "dangling", "c": "c"})
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o604 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// On file systems without nameless files, the file has a name until Commit.
func TestVisible(t *testing.T) {
	dir := t.TempDir()
	for _, end := range []func(*File) error{(*File).Commit, func(f *File) error { f.Abort(); return nil }} {
		file, name, err := visible(filepath.Join(dir, "a"), 0o600)
		must(t, err)
		f := &File{File: file, target: filepath.Join(dir, "a"), temp: name}
		_, err = f.Write([]byte("new"))
		must(t, err)
		must(t, end(f))
		f.Abort()
		want(t, dir, map[string]string{"a": "new"})
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink("loop", loop))
	for name, want := range map[string]error{
		dir: syscall.EISDIR, filepath.Join(dir, "none", "x"): fs.ErrNotExist, loop: syscall.ELOOP, "": fs.ErrNotExist,
	} {
		if f, err := Create(name); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v; want %v", name, f, err, want)
		}
	}
	must(t, os.Remove(loop))
	want(t, dir, nil)
}

// Resolve does not clean paths: link/.. is the parent of the link's target.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must(t, os.Symlink(filepath.Join("a", "b"), filepath.Join(dir, "link")))
	must(t, os.Symlink("x", filepath.Join(dir, "a", "to")))
	must(t, WriteFile(dir+"/link/../to", []byte("x")))
	must(t, os.Remove(filepath.Join(dir, "a", "b")))
	want(t, filepath.Join(dir, "a"), map[string]string{"to": "x", "x": "x"})
}
