//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// For all verbs, a full disk is an error.
func TestFullDisk(t *testing.T) {
	file, pairs := writeFile(t, "a\nb\n"), newPool(t, 10)
	for _, args := range [][]string{
		{}, {"--help"}, {"help"}, {"help", "count"}, {"completion", "bash"},
		{"version"}, {"version", "--json"}, {"devices"}, {"devices", "--json"},
		{"count", "--device=cpu", file}, {"count", "--device=cpu", "--json", file},
		{"group", "--by=1", "--header=no", file}, {"group", "--by=1", "--header=no", "--csv", file}, {"group", "--by=1", "--header=no", "--json", file},
		{"distinct", "--header=no", "--count", file}, {"join", "--on=1", "--header=no", "--csv", file, file},
		{"pool"}, {"pool", "dump", "--help"}, {"pool", "info", pairs}, {"pool", "info", "--json", pairs},
		{"pool", "dump", pairs}, {"pool", "dump", "--json", pairs},
		{"graph", "stats", karate}, {"graph", "bfs", "--json", karate}, {"graph", "kcore", "--values", karate}, {"graph", "replay", karate}, {"graph", "convert", "--to=csv", karate, "-"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		var errOut bytes.Buffer
		cmd := weftCommand(t, args...)
		cmd.Stdout, cmd.Stderr = full, &errOut
		_ = cmd.Run()
		full.Close()
		if status := cmd.ProcessState.ExitCode(); status != exitFailed {
			t.Errorf("weft %s: exit status %d, want %d", strings.Join(args, " "), status, exitFailed)
		}
		wantOneLine(t, args, errOut.String(), "no space left on device")
	}
}

// wantOneLine requires that the output is one line that begins with weft: and contains text.
func wantOneLine(t *testing.T, args []string, stderr, text string) {
	t.Helper()
	if !strings.HasPrefix(stderr, "weft: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, text) {
		t.Errorf("weft %.200s says %q, want one line with %q", strings.Join(args, " "), stderr, text)
	}
}

func TestOddDeviceNames(t *testing.T) {
	long := strings.Repeat("9", 3000)
	for _, name := range []string{
		"", " cpu", "CPU", "cpu:", "cpu:0", "cpu:x", "auto:1", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999999999999", "cuda:" + long,
		"sim:", "sim::", "sim:xyz", "sim:0x", "sim:-1", "sim:99999999999999999999", "sim:random:", "sim:fff:1", "sim:1:2:3", "sim:" + long,
		"gerät", "a\nb", "\x1b[31m", "\xff\xfe", long,
	} {
		for _, verb := range []string{"version", "devices", "count"} {
			args := []string{verb, "--device", name}
			if verb == "count" {
				args = append(args, "-")
			}
			stdout, stderr, status := runWeft(t, "", args...)
			first, second, _ := strings.Cut(stderr, "\n")
			if status != exitUsage || stdout != "" {
				t.Errorf("%.40q: exit status %d after printing %q", args, status, stdout)
			}
			if !strings.HasPrefix(first, `weft: --device "`) || len(first) > 200 || second != "try 'weft "+verb+" --help'\n" {
				t.Errorf("%.40q: says %.300q", args, stderr)
			}
		}
	}
}

// Errors of a file are one line, whatever the file's name.
func TestOddFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		filepath.Join(dir, "a\nb\x1b[31m\xff"):       `a\nb\x1b[31m\xff: no such file or directory`,
		filepath.Join(dir, strings.Repeat("x", 300)): "file name too long",
		filepath.Join(writeFile(t, ""), "x"):         "not a directory",
		"/proc/self/mem":                             "/proc/self/mem: input/output error",
	} {
		args := []string{"count", "--device=cpu", name}
		_, stderr, status := runWeft(t, "", args...)
		if status != exitFailed {
			t.Errorf("count %.300q: exit status %d", name, status)
		}
		wantOneLine(t, args, stderr, want)
	}
}

// limited returns a command that runs the program with limited address space, in KiB.
func limited(t *testing.T, kib int, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", "ulimit -v " + strconv.Itoa(kib) + ` && exec "$0" "$@"`, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	return cmd
}

// Under a memory limit, the program prints its result, or one line with status 1, but never a trace
// of the runtime. The outcome varies, and so does the part that fails.
func TestMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("counts millions of lines")
	}
	var lines strings.Builder
	for i := range 3_000_000 {
		lines.WriteString(strconv.Itoa(i) + "\n")
	}
	file := writeFile(t, lines.String())
	failed := 0
	for kib := 1_500_000; kib <= 1_700_000; kib += 100_000 {
		var out, errOut bytes.Buffer
		cmd := limited(t, kib, "count", "--device=cpu", file)
		// With one malloc arena per thread, the program sometimes fails under these limits before
		// it can print anything.
		cmd.Env = append(cmd.Env, "MALLOC_ARENA_MAX=1")
		cmd.Stdout, cmd.Stderr = &out, &errOut
		_ = cmd.Run()
		switch status := cmd.ProcessState.ExitCode(); status {
		case exitOK:
			if n := strings.Count(out.String(), "\n"); n != 3_000_000 {
				t.Errorf("%d KiB: prints %d lines", kib, n)
			}
		case exitFailed:
			failed++
			wantOneLine(t, cmd.Args, errOut.String(), "memory")
		default:
			t.Errorf("%d KiB: exit status %d and %.300q", kib, status, errOut.String())
		}
	}
	if failed == 0 {
		t.Error("the limit has no effect")
	}
}

// Under a generous limit the program behaves as without a limit.
func TestUnderLimit(t *testing.T) {
	const enough = 8 << 20
	var out, errOut bytes.Buffer
	cmd := limited(t, enough, "count", "--device=cpu", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("a\nb\na\n"), &out, &errOut
	if err := cmd.Run(); err != nil || out.String() != "2 a\n1 b\n" || !strings.HasPrefix(errOut.String(), "weft: 3 items") {
		t.Errorf("%v; prints %q and says %q", err, &out, &errOut)
	}
	errOut.Reset()
	cmd = limited(t, enough, "--nope")
	cmd.Stderr = &errOut
	_ = cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != exitUsage || !strings.Contains(errOut.String(), "unknown flag") {
		t.Errorf("exit status %d and %q", status, &errOut)
	}
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: 128 + 15} {
		cmd = limited(t, enough, "count", "--device=cpu", "-")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// This exceeds the capacity of a pipe. When all of it is written, the program is reading.
		if _, err := stdin.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Signal(sig)
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		stdin.Close()
		if status := cmd.ProcessState.ExitCode(); status != want {
			t.Errorf("%v: exit status %d, want %d", sig, status, want)
		}
	}
}
