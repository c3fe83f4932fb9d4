package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mainEnv makes the test binary behave as the program.
const mainEnv = "WEFT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// weftCommand returns the program as a separate process, on the CPU.
func weftCommand(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	return cmd
}

// runWeft runs the program on the CPU.
func runWeft(t *testing.T, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := weftCommand(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		stderr string // part of stderr
	}{
		{"help", []string{"--help"}, exitOK, ""},
		{"no verb", nil, exitOK, ""},
		{"version", []string{"version"}, exitOK, ""},
		{"unknown verb", []string{"cuont"}, exitUsage, "weft: cuont: no such command; did you mean count?\ntry 'weft --help'\n"},
		{"unknown flag", []string{"count", "--nope"}, exitUsage, "weft: count: unknown flag: --nope\ntry 'weft count --help'\n"},
		{"bad device", []string{"count", "--device", "tpu", "x"}, exitUsage, "weft: --device \"tpu\": want auto, cpu, cuda, cuda:N or sim[:seed]\ntry 'weft count --help'\n"},
		{"argument too many", []string{"devices", "x"}, exitUsage, "weft: devices x: takes no arguments\ntry 'weft devices --help'\n"},
		{"no file", []string{"count"}, exitUsage, "weft: count: no file given; - is standard input\ntry 'weft count --help'\n"},
		{"bad --by", []string{"count", "--by", "letter", "x"}, exitUsage, "weft: count --by: \"letter\": want line, word or bytes:N\ntry 'weft count --help'\n"},
		{"bad record", []string{"count", "--by", "bytes:0", "x"}, exitUsage, "weft: count --by: records of 0 bytes: want 1 to 1073741824\ntry 'weft count --help'\n"},
		{"bad --top", []string{"count", "--top", "-1", "x"}, exitUsage, "weft: count --top -1: must not be negative\ntry 'weft count --help'\n"},
		{"missing file", []string{"count", filepath.Join(dir, "none")}, exitFailed, "weft: count " + filepath.Join(dir, "none") + ": no such file or directory\n"},
		{"directory", []string{"count", dir}, exitFailed, "weft: count " + dir + ": is a directory\n"},
		{"no such GPU", []string{"count", "--device", "cuda:999", writeFile(t, "a")}, exitFailed, "weft: open device cuda:999: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, status := runWeft(t, "", tt.args...)
			if status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			if !strings.HasPrefix(stderr, tt.stderr) || (tt.stderr == "") != (stderr == "") {
				t.Errorf("says %q, want %q", stderr, tt.stderr)
			}
			if status != exitOK && stdout != "" {
				t.Errorf("prints %q besides the error", stdout)
			}
		})
	}
}

// The help has a line for each flag, and its examples run on files of the repository.
func TestHelp(t *testing.T) {
	verbs := newRootCommand(&app{}).Commands()
	for _, cmd := range verbs {
		if cmd.Name() == "pool" || cmd.Name() == "graph" || cmd.Name() == "store" {
			verbs = append(verbs, cmd.Commands()...)
		}
	}
	for _, cmd := range verbs {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue // defined by cobra
		}
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s: help is incomplete", cmd.CommandPath())
		}
		stdout, _, status := runWeft(t, "", append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if status != exitOK || !strings.Contains(stdout, "Examples:") || !strings.Contains(stdout, "--device") {
			t.Errorf("%s --help: status %d, prints %q", cmd.CommandPath(), status, stdout)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 121 {
				t.Errorf("%s --help: a line of %d columns: %s", cmd.CommandPath(), len(line)-1, line)
			}
		}
		ran := 0
		for line := range strings.Lines(cmd.Example) {
			if args := exampleArgs(line); args != nil {
				weft := weftCommand(t, args...)
				weft.Dir = "../.."
				if out, err := weft.CombinedOutput(); err != nil {
					t.Errorf("%q: %v\n%s", line, err, out)
				}
				ran++
			}
		}
		if path := cmd.CommandPath(); ran == 0 && !strings.Contains(path, "pool") && !strings.Contains(path, "store") {
			t.Errorf("%s: no example is of files in the repository", path)
		}
	}
}

// exampleArgs returns the arguments of an example that reads only files of the repository, and
// writes none.
func exampleArgs(line string) (args []string) {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " |")
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "weft" || strings.ContainsAny(line, "<\\") || strings.Contains(line, "--svg") {
		return nil
	}
	for _, word := range words[1:] {
		if strings.Contains(word, "*") {
			files, _ := filepath.Glob(filepath.Join("../..", word))
			for _, file := range files {
				args = append(args, strings.TrimPrefix(file, "../../"))
			}
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", word)); err != nil && strings.ContainsAny(word, "./") {
			return nil
		}
		args = append(args, word)
	}
	return args
}

// Shells complete flags that have few values, and the verb accepts each value.
func TestCompletion(t *testing.T) {
	for verb, flags := range choices {
		for flag, values := range flags {
			args := append(append([]string{"__complete"}, strings.Fields(verb)...), "--"+flag, "")
			stdout, _, status := runWeft(t, "", args...)
			if want := strings.Join(values, "\n") + "\n:4\n"; status != exitOK || stdout != want {
				t.Errorf("%s --%s: status %d, offers %q, want %q", verb, flag, status, stdout, want)
			}
			for _, v := range values {
				if verb == "" || strings.HasSuffix(v, ":") {
					continue
				}
				_, stderr, _ := runWeft(
					t,
					"",
					append(strings.Fields(verb), "--"+flag, v, "no-such-file")...)
				if strings.Contains(stderr, "--"+flag+" ") && strings.Contains(stderr, "want") {
					t.Errorf("%s --%s %s: %s", verb, flag, v, stderr)
				}
			}
		}
	}
}

// The first SIGINT ends a count that waits for its input.
func TestInterrupt(t *testing.T) {
	cmd := weftCommand(t, "count", "--device", "cpu", "-")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// This exceeds the capacity of a pipe. When all of it is written, the program is reading.
	if _, err := stdin.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skip("cannot interrupt:", err)
	}
	timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitInterrupted {
		t.Errorf("exit status %d, want %d", got, exitInterrupted)
	}
	if out.Len() > 0 || errOut.String() != "weft: interrupted\n" {
		t.Errorf("prints %q and says %q", &out, &errOut)
	}
}
