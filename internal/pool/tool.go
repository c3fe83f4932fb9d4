package pool

import (
	"runtime/debug"
	"strings"
)

// module is what tools are versions of.
const module = "github.com/weftgo/weft"

// tool names this version as superblocks keep it: "weft v1.2.3", or "weft (devel)" in a
// program that was built without a version. info is nil in one without modules.
func tool(info *debug.BuildInfo) string {
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
