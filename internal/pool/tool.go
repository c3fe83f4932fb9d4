package pool

import (
	"runtime/debug"
	"strings"
)

const module = "github.com/weftgo/weft"

// toolVersion returns the version of this module for superblocks: "weft v1.2.3", or "weft (devel)"
// if the program has no version. info is nil if the program was built without modules.
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
