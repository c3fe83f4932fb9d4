package pool

import (
	"runtime/debug"
	"strings"
)

// module is the path of the module that tool looks for.
const module = "github.com/weftgo/weft"

// toolVersion returns the version of this module as superblocks store it: "weft v1.2.3", or "weft
// (devel)" in a program built without a version. info is nil in a program built without modules.
func toolVersion(info *debug.BuildInfo) string {
	version := "(devel)"
	if info != nil {
		for _, m := range append(info.Deps, &info.Main) {
			for ; m != nil && m.Path == module; m = m.Replace {
				if m.Version != "" {
					version = m.Version
				}
			}
		}
	}
	name := "weft " + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, version)
	return name[:min(len(name), maxTool)]
}
