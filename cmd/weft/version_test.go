package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	full := build{Version: "v1.2.3", Revision: "0123456789abcdef", Time: "2026-01-02T03:04:05Z", Modified: true, Go: "go1", Platform: "plan9/386"}
	for _, tt := range []struct {
		build build
		want  string
	}{
		{full, "weft v1.2.3 (0123456789ab of 2026-01-02T03:04:05Z, modified) go1 plan9/386\n"},
		{build{Version: "v1.2.3", Revision: "ab", Go: "go1", Platform: "p"}, "weft v1.2.3 (ab) go1 p\n"},
		{build{Version: "v1.2.3", Go: "go1", Platform: "p"}, "weft v1.2.3 go1 p\n"},
	} {
		var out bytes.Buffer
		if err := runVersion(&app{stdout: &out}, tt.build); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.want {
			t.Errorf("prints %q, want %q", &out, tt.want)
		}
	}
	var out bytes.Buffer
	if err := runVersion(&app{stdout: &out, json: true}, full); err != nil {
		t.Fatal(err)
	}
	var got build
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != full {
		t.Errorf("%s reads as %+v, %v", &out, got, err)
	}
	if b := currentBuild(); b.Version == "" || !strings.HasPrefix(b.Go, "go") || !strings.Contains(b.Platform, "/") {
		t.Errorf("this program is %+v", b)
	}
}
