package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// releases is the release configuration. script runs the checks that every change must pass.
const releases, script = ".goreleaser.yaml", ".ci/run"

var (
	uses       = regexp.MustCompile(`(?m)^\s*-?\s*uses:\s*(\S+)`)
	pinned     = regexp.MustCompile(`^[\w.-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})$`)
	goreleaser = regexp.MustCompile(`goreleaser/goreleaser-action@\S+\s+with:\s+version: (\S+)`)
	linked     = regexp.MustCompile(`-X github\.com/weftgo/weft/([\w/]+)\.(\w+)=`)
	target     = regexp.MustCompile(`(?m)^\s+- (\w+)_(\w+)$`)
	typechecks = regexp.MustCompile(`typecheck ((?:\w+/\w+ )+)--`)
)

// hosting requires each workflow to run script, so that anyone can repeat its checks, and to pin
// the versions of actions. Releases must cover the systems that script checks, and must embed their
// version.
func hosting(t *Tree) (found []string) {
	var versions []string
	for _, name := range t.files {
		if !strings.HasPrefix(name, ".github/workflows/") {
			continue
		}
		text := t.read(name)
		if path.Ext(name) != ".yml" || strings.Contains(text, "\t") {
			found = append(found, fmt.Sprintf("%s: want .yml, without tabs", name))
		}
		if !strings.Contains(text, "run: "+script+"\n") {
			found = append(found, fmt.Sprintf("%s: does not run %s", name, script))
		}
		for _, m := range uses.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(m[1]) {
				found = append(found, fmt.Sprintf("%s: %s has no version", name, m[1]))
			}
		}
		for _, m := range goreleaser.FindAllStringSubmatch(text, -1) {
			versions = append(versions, m[1])
		}
	}
	if !t.has(releases) {
		return found
	}
	text := t.read(releases)
	for _, v := range versions {
		if !strings.Contains(text, "goreleaser "+v+" ") {
			found = append(found, fmt.Sprintf("%s: is not for version %s, which a workflow has", releases, v))
		}
	}
	return append(append(found, stamps(t, text)...), targets(t, text)...)
}

// stamps requires the variables that the linker sets to exist, because the linker ignores unknown
// names.
func stamps(t *Tree, text string) (found []string) {
	all := linked.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		found = append(found, releases+": the linker is not told the version")
	}
	for _, m := range all {
		declared := slices.ContainsFunc(t.gos, func(f goFile) bool {
			return path.Dir(f.path) == m[1] && regexp.MustCompile(`(?m)^var .*\b`+m[2]+`\b.* string$`).MatchString(t.read(f.path))
		})
		if !declared {
			found = append(found, fmt.Sprintf("%s: there is no variable %s in %s for the linker to set", releases, m[2], m[1]))
		}
	}
	return found
}

// targets requires binaries for linux/amd64, on which tests run, and for all systems that script
// type-checks.
func targets(t *Tree, text string) (found []string) {
	want := []string{"linux/amd64"}
	if m := typechecks.FindStringSubmatch(t.read(script)); m != nil {
		want = append(want, strings.Fields(m[1])...)
	}
	var have []string
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		have = append(have, m[1]+"/"+m[2])
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		found = append(found, fmt.Sprintf("%s: binaries for %v, but %s looks at %v", releases, have, script, want))
	}
	return found
}
