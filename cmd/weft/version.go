package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this program was made of.
type build struct {
	Version  string `json:"version"`            // of the module; (devel) in a checkout
	Revision string `json:"revision,omitempty"` // of the version control
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified"`           // the checkout had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print what this program was built from",
		Long:    `Print the version of the module and, where the program was built in a checkout, the revision.`,
		Example: `  weft version --json`,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			return runVersion(a, readBuild(info))
		},
	}
}

func runVersion(a *app, b build) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(b)
	}
	line := "weft " + b.Version
	if b.Revision != "" {
		line += fmt.Sprintf(" (%.12s of %s", b.Revision, b.Time)
		if b.Modified {
			line += ", modified"
		}
		line += ")"
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s %s\n", line, b.Go, b.Platform)
	return err
}

// readBuild picks out what matters; info is nil in a program built without
// modules.
func readBuild(info *debug.BuildInfo) build {
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
