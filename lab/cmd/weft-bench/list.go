package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/lab/internal/experiment"
)

func newListCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [EXPERIMENT...]",
		Short: "List all experiments, or describe the named ones",
		RunE: func(_ *cobra.Command, args []string) error {
			experiments := experiment.All()
			if len(args) > 0 {
				var err error
				if experiments, err = experiment.Find(args...); err != nil {
					return usageError{err}
				}
			}
			if asJSON {
				return listJSON(a, experiments)
			}
			for _, e := range experiments {
				var err error
				if len(args) > 0 {
					_, err = fmt.Fprintf(a.stdout, "%s: %s\n\n%s\n", e.Name, e.Title, e.Doc)
				} else {
					title := e.Title
					if len(e.Also) > 0 {
						title += " (also " + strings.Join(e.Also, ", ") + ")"
					}
					_, err = fmt.Fprintf(a.stdout, "%-22s  %s\n", e.Name, title)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of objects with name, also, title, doc and default")
	return cmd
}

func listJSON(a *app, experiments []experiment.Experiment) error {
	type entry struct {
		Name    string   `json:"name"`
		Also    []string `json:"also,omitempty"`
		Title   string   `json:"title"`
		Doc     string   `json:"doc"`
		Default bool     `json:"default"`
	}
	list := make([]entry, 0, len(experiments))
	for _, e := range experiments {
		list = append(list, entry{e.Name, e.Also, e.Title, e.Doc, e.Default})
	}
	out := json.NewEncoder(a.stdout)
	out.SetIndent("", "  ")
	return out.Encode(list)
}
