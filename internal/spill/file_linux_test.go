package spill

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// A process that is killed while it writes leaves nothing in the directory.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	stderr, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || line != "writing\n" {
		t.Errorf("the child printed %q, %v", line, err)
	}
	check(t, cmd.Process.Kill())
	err = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("%v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left %v, %v", files, err)
	}
}

// If a file system does not support files without a name, the name is removed.
func TestUnnamed(t *testing.T) {
	dir := t.TempDir()
	for name, temporary := range map[string]func(string) (*os.File, error){
		"unnamed": unnamed, "temporary": temporary,
	} {
		f, err := temporary(dir)
		check(t, err)
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%s: %v, %v", name, files, err)
		}
		info, err := f.Stat()
		check(t, err)
		if mode := info.Mode(); mode != 0o600 {
			t.Errorf("%s: mode %v", name, mode)
		}
		if links := info.Sys().(*syscall.Stat_t).Nlink; links != 0 {
			t.Errorf("%s: %d names", name, links)
		}
		_, err = f.WriteAt([]byte("x"), 1000)
		check(t, err)
		check(t, f.Close())
		if f, err := temporary(dir + "/missing"); err == nil {
			t.Errorf("%s: made %s", name, f.Name())
		}
	}
}

// A directory in memory is an error that names the directory and the remedy.
func TestInMemory(t *testing.T) {
	const dir = "/dev/shm"
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || !strings.Contains(string(mounts), " "+dir+" tmpfs ") {
		t.Skip(dir, " is no tmpfs: ", err)
	}
	_, err = Create(dir, nil)
	wantError(t, err, op.ErrOptions, dir, "TempDir")
	t.Setenv("TMPDIR", dir)
	if f, err := Create("", nil); !errors.Is(err, op.ErrOptions) {
		t.Errorf("%v, %v", f, err)
	}
	f, err := Create("", &Options{AllowMemory: true})
	check(t, err)
	check(t, f.Close())
	if inMemory("/proc/self") || inMemory(dir+"/missing") {
		t.Error("too much is in memory")
	}
	t.Setenv("TMPDIR", "")
	if f, err := Create("", nil); err == nil {
		if f.Dir() != "/var/tmp" && f.Dir() != os.TempDir() {
			t.Errorf("by default in %s", f.Dir())
		}
		check(t, f.Close())
	}
}

// A file system that is really full returns the same error as the test double.
func TestNoSpace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("no mounts here: ", err)
	}
	defer func() { check(t, unix.Unmount(dir, 0)) }()
	f, err := Create(dir, &Options{BlockSize: 16 << 10, AllowMemory: true})
	check(t, err)
	a, b := f.Chain(), f.Chain()
	check(t, b.Append(make([]byte, 100_000)))
	for err == nil {
		err = a.Append(make([]byte, 10_000))
	}
	wantError(t, err, syscall.ENOSPC, dir, "set TempDir")
	check(t, wantPages(b, [][]byte{make([]byte, 100_000)}))
	check(t, a.Free())
	check(t, b.Append(make([]byte, 20_000)))
	check(t, f.Close())
}
