// Package revision returns the version and the revision from which the running program was built.
//
// "go build" in a clone records both in the program. "go run" does not, and neither does a build in
// a git worktree, whose .git is a file. For releases and for bundles for other machines, the linker
// sets both. A program started by "go run" asks git, since it usually runs in the checkout from
// which it was built.
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

// Build describes the source that a program was built from.
type Build struct {
	Version  string // version of the module; (devel) in a checkout, (unknown) without modules
	Revision string // revision in hexadecimal, or "" if unknown
	Time     string // time of the revision, RFC 3339, or "" if unknown
	Modified bool   // whether the checkout had changes
}

// The linker sets these variables: -X github.com/weftgo/weft/internal/revision.linkedRevision=…
var linkedVersion, linkedRevision, linkedTime, linkedModified string

// Current returns the Build of the running program.
var Current = sync.OnceValue(func() Build {
	info, _ := debug.ReadBuildInfo()
	b := readInfo(info).merge(Build{linkedVersion, linkedRevision, linkedTime, linkedModified == "true"})
	if program, err := os.Executable(); b.Revision == "" && err == nil && fromGoRun(program) {
		b = b.merge(checkout("."))
	}
	return b
})

// readInfo returns the version and revision that Go recorded. info is nil in programs without
// modules.
func readInfo(info *debug.BuildInfo) Build {
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

// merge returns b with the version of other if other has one, and with the revision of other if
// other has one.
func (b Build) merge(other Build) Build {
	if other.Version != "" {
		b.Version = other.Version
	}
	if other.Revision != "" {
		b.Revision, b.Time, b.Modified = other.Revision, other.Time, other.Modified
	}
	return b
}

// Short returns one word for reports: the version or, without a version, the first 12 digits of the
// revision. "+changes" follows if the checkout had changes.
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

// goRun matches the paths of programs that "go run" builds, in its work directory or in its cache.
var goRun = regexp.MustCompile(`(/go-build\d+/b\d+/exe|/[0-9a-f]{2}/[0-9a-f]{64}-d)/[^/]+$`)

func fromGoRun(program string) bool { return goRun.MatchString(filepath.ToSlash(program)) }

// moduleLine is the first line of weft's go.mod.
const moduleLine = "module github.com/weftgo/weft\n"

// checkout returns the revision of the weft checkout that contains dir. It returns a zero Build
// without git, or outside such a checkout.
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

// parse returns the Build for a line of git, which has a revision and the time of the revision in
// seconds since 1970.
func parse(head string, modified bool) Build {
	b := Build{Modified: modified}
	var seconds string
	b.Revision, seconds, _ = strings.Cut(head, " ")
	if at, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		b.Time = time.Unix(at, 0).UTC().Format(time.RFC3339)
	}
	return b
}
