package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Without /proc a nameless file cannot get a name, so Create creates named files.
func TestWithoutProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change its root")
	}
	root := t.TempDir()
	program, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, "test"), program, 0o700))
	must(t, os.Mkdir(filepath.Join(root, "tmp"), 0o700))
	cmd := exec.CommandContext(t.Context(), "/test", "-test.run=^(TestFile|TestCommit)$")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", []string{"TMPDIR=/tmp"}, &syscall.SysProcAttr{Chroot: root}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skip("the test is linked to libraries, or its root must stay: ", err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Create refuses a file that a rename could not replace, before anything is written.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	must(t, os.WriteFile(name, nil, 0o666))
	info, err := os.Stat(name)
	must(t, err)
	user := os.Geteuid()
	for mode, want := range map[fs.FileMode]error{0o777: nil, 0o777 | fs.ModeSticky: unix.EPERM} {
		must(t, os.Chmod(dir, mode))
		if err := replaceable(name, info, user+1); !errors.Is(err, want) {
			t.Errorf("%v, another user: %v, want %v", mode, err, want)
		}
		if err := replaceable(name, info, user); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if err := unix.Mount(name, name, "", unix.MS_BIND, ""); err != nil {
		t.Skip("no mounts here: ", err)
	}
	defer unix.Unmount(name, 0)
	if f, err := Create(name); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a mount point: %v, %v", f, err)
	}
}

// If a folder does not allow a new file, the error names the folder instead of the file.
func TestFolderErrors(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(dir, "none", "x"), "none/x"} {
		_, err := Create(name)
		if want := "make a file in " + folder(name) + ": "; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
