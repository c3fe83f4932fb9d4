package revision

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

const digits = "0123456789abcdef0123456789abcdef01234567"

func TestRead(t *testing.T) {
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: digits},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
	}}
	for _, tt := range []struct {
		info  *debug.BuildInfo
		more  Build
		want  Build
		short string
	}{
		{nil, Build{}, Build{Version: "(unknown)"}, "(unknown)"},
		{nil, Build{Revision: digits}, Build{Version: "(unknown)", Revision: digits}, "0123456789ab"},
		{&debug.BuildInfo{}, Build{}, Build{Version: "(unknown)"}, "(unknown)"},
		{stamped, Build{}, Build{"(devel)", digits, "2026-01-02T03:04:05Z", true}, "0123456789ab+changes"},
		{stamped, Build{Version: "v1.2.3"}, Build{"v1.2.3", digits, "2026-01-02T03:04:05Z", true}, "v1.2.3"},
		{stamped, Build{Revision: "ab"}, Build{"(devel)", "ab", "", false}, "ab"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, Build{}, Build{Version: "v1.2.3"}, "v1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Build{}, Build{Version: "(devel)"}, "(devel)"},
	} {
		if got := readInfo(tt.info).merge(tt.more); got != tt.want || got.Short() != tt.short {
			t.Errorf("%+v with %+v reads as %+v, %q; want %+v, %q", tt.info, tt.more, got, got.Short(), tt.want, tt.short)
		}
	}
}

func TestFromGoRun(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build123/b001/exe/weft":  true,
		"/tmp/go-build123/b001/weft.test": false, // a program of go test
		"/var/cache/go-build/b9/b9bc429ef749e58557631e1c2b891d42a647219f203593b250b7324e0ca72508-d/weft": true,
		"/usr/local/bin/weft":                false,
		"/tmp/go-build123/b001/exe/sub/weft": false,
	} {
		if fromGoRun(program) != want {
			t.Errorf("%s comes from go run: %v", program, !want)
		}
	}
}

// checkout returns the revision of a checkout of weft, with changes or without. It returns nothing
// in another repository, or outside a repository.
func TestCheckout(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	if got := checkout(dir); got != (Build{}) {
		t.Errorf("without a repository: %+v", got)
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(module string) {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+module+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("github.com/weftgo/weft")
	if got := checkout(dir); got != (Build{}) {
		t.Errorf("without a commit: %+v", got)
	}
	git("add", ".")
	git("commit", "-q", "-m", "first")
	want := Build{Revision: git("rev-parse", "HEAD"), Time: "2026-01-02T03:04:05Z"}
	if got := checkout(dir); got != want {
		t.Errorf("clean: %+v, want %+v", got, want)
	}
	sub := filepath.Join(dir, "sub")
	if err := os.WriteFile(sub, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want.Modified = true
	if got := checkout(dir); got != want {
		t.Errorf("changed: %+v, want %+v", got, want)
	}
	write("example.com/other")
	if got := checkout(dir); got != (Build{}) {
		t.Errorf("another module: %+v", got)
	}
}

// Current does not treat a test as a program of go run. A test may be built without a revision.
// Repeated calls return the same.
func TestCurrent(t *testing.T) {
	if a, b := Current(), Current(); a != b || a.Version == "" {
		t.Errorf("%+v, then %+v", a, b)
	}
}
