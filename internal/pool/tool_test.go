package pool

import (
	"runtime/debug"
	"testing"
)

// A pool stores the version of the module that created it, truncated to the size of the field.
func TestTool(t *testing.T) {
	mod := func(version string) debug.Module { return debug.Module{Path: module, Version: version} }
	other := debug.Module{Path: "example.org/other", Version: "v9.9.9"}
	fork := mod("v1.2.0")
	fork.Replace = &debug.Module{Path: module, Version: "v1.2.1"}
	v1, long, odd := mod("v1.2.3"), mod("v0.0.0-20261123105252-bf706f912345"), mod("v1\n2é")
	for want, info := range map[string]*debug.BuildInfo{
		"weft (devel)":                     nil,
		"weft v1.2.3":                      {Main: other, Deps: []*debug.Module{&other, &v1}},
		"weft v1.2.1":                      {Main: other, Deps: []*debug.Module{&fork}},
		"weft v1?2?":                       {Main: odd},
		"weft v0.0.0-20261123105252-bf706": {Main: long},
	} {
		if is := toolVersion(info); is != want {
			t.Errorf("%q, want %q", is, want)
		}
		s := sample()
		if s.Tool = toolVersion(info); s.validate(testSize) != nil {
			t.Errorf("%q: %v", s.Tool, s.validate(testSize))
		}
	}
	if is := toolVersion(&debug.BuildInfo{Main: other}); is != "weft (devel)" {
		t.Errorf("without a version: %q", is)
	}
}
