// Package revision says what a program was built from: the version of its module and
// the revision of the checkout.
//
// Go stamps both into what "go build" makes in a clone. It stamps nothing into what
// "go run" makes, nor in a worktree of git, whose .git is a file. Releases and bundles
// for other machines have the linker set both; a program of "go run" asks git, since
// the checkout that it runs in is the one that it has just been made of.
package revision

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Build is what a program was built from.
type Build struct {
	Version  string // of the module; (devel) in a checkout, (unknown) without modules
	Revision string // of the version control, all digits; "" where nobody knows
	Time     string // of the revision, RFC 3339; may be ""
	Modified bool   // the checkout had changes
}

// Set by the linker: -X github.com/weftgo/weft/internal/revision.linkedRevision=…
var linkedVersion, linkedRevision, linkedTime, linkedModified string

// Current is what this program was built from.
var Current = sync.OnceValue(func() Build {
	info, _ := debug.ReadBuildInfo()
	b := read(info).linked(Build{linkedVersion, linkedRevision, linkedTime, linkedModified == "true"})
	if program, err := os.Executable(); b.Revision == "" && err == nil && fromGoRun(program) {
		b = b.linked(checkout("."))
	}
	return b
})

// read picks out what matters of what Go stamps; info is nil in a program built without
// modules.
func read(info *debug.BuildInfo) Build {
	b := Build{Version: "(unknown)"}
	if info == nil {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// linked is a build with what else is known of it.
func (b Build) linked(more Build) Build {
	if more.Version != "" {
		b.Version = more.Version
	}
	if more.Revision != "" {
		b.Revision, b.Time, b.Modified = more.Revision, more.Time, more.Modified
	}
	return b
}

// Short is one word for reports: the version, or the first digits of the revision where
// there is none, with a mark if the checkout had changes.
func (b Build) Short() string {
	if b.Version != "(devel)" && b.Version != "(unknown)" || b.Revision == "" {
		return b.Version
	}
	short := b.Revision[:min(12, len(b.Revision))]
	if b.Modified {
		short += "+changes"
	}
	return short
}

// goRun matches the paths of programs that "go run" makes: its work directory the first time, or
// its cache.
var goRun = regexp.MustCompile(`(/go-build\d+/b\d+/exe|/[0-9a-f]{2}/[0-9a-f]{64}-d)/[^/]+$`)

func fromGoRun(program string) bool { return goRun.MatchString(filepath.ToSlash(program)) }

// moduleLine is the first line of the go.mod of the checkout that is meant.
const moduleLine = "module github.com/weftgo/weft\n"

// checkout asks git for the revision of the checkout of weft that a directory is in; without
// git, or elsewhere, nothing is known.
func checkout(dir string) Build {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return Build{}
	}
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), moduleLine) {
		return Build{}
	}
	head, err := git("log", "-1", "--no-show-signature", "--format=%H %ct")
	if err != nil {
		return Build{}
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return Build{}
	}
	return parse(head, changes != "")
}

// parse reads a revision and its time in seconds.
func parse(head string, modified bool) Build {
	b := Build{Modified: modified}
	var seconds string
	b.Revision, seconds, _ = strings.Cut(head, " ")
	if at, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		b.Time = time.Unix(at, 0).UTC().Format(time.RFC3339)
	}
	return b
}
