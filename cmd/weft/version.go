package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/internal/revision"
)

// build describes how this program was built.
type build struct {
	Version  string `json:"version"`            // version of the module; (devel) in a checkout
	Revision string `json:"revision,omitempty"` // revision of the checkout
	Time     string `json:"time,omitempty"`     // time of the revision
	Modified bool   `json:"modified"`           // the checkout had local changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this program was built from",
		Long:  `Version prints the version of the module. A program built in a checkout also prints the revision.`,
		Example: `  weft version
  weft version --json`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return runVersion(a, currentBuild())
		},
	}
}

func runVersion(a *app, b build) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(b)
	}
	line := "weft " + b.Version
	if b.Revision != "" {
		line += fmt.Sprintf(" (%.12s", b.Revision)
		if b.Time != "" {
			line += " of " + b.Time
		}
		if b.Modified {
			line += ", modified"
		}
		line += ")"
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s %s\n", line, b.Go, b.Platform)
	return err
}

func currentBuild() build {
	b := revision.Current()
	return build{b.Version, b.Revision, b.Time, b.Modified, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}
