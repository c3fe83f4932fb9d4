package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
	}}
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{info, "weft v1.2.3 (0123456789ab of 2026-01-02T03:04:05Z, modified) go"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "weft v1.2.3 go"},
		{nil, "weft (unknown) go"},
	} {
		var out bytes.Buffer
		if err := runVersion(&app{stdout: &out}, readBuild(tt.info)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("prints %q, want %q", &out, tt.want)
		}
	}
	var out bytes.Buffer
	if err := runVersion(&app{stdout: &out, json: true}, readBuild(info)); err != nil {
		t.Fatal(err)
	}
	var got build
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != readBuild(info) {
		t.Errorf("%s reads as %+v, %v", &out, got, err)
	}
}
