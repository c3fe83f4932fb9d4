package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Values of flags that several verbs share.
var (
	tableFormats = []string{"auto", "csv", "tsv", "json", "parquet", "arrow"}
	graphFormats = []string{"auto", "mtx", "txt", "csv", "gr", "graph", "el", "wel"} // for output
)

// choices maps verbs and their flags to the values that shells offer.
var choices = map[string]map[string][]string{
	"":              {"device": {"auto", "cpu", "cuda", "sim"}},
	"count":         {"by": {"line", "word", "bytes:"}},
	"group":         tableChoices(nil),
	"distinct":      tableChoices(nil),
	"join":          tableChoices(joinKinds),
	"graph":         {"format": append(slices.Clone(graphFormats), "adjlist"), "header": {"auto", "yes", "no"}, "ids": {"auto", "sparse", "dense", "strings"}},
	"graph convert": {"to": graphFormats},
	"graph replay":  {"result": replayResults},
	"pool create":   {"durability": {"none", "process", "pmem"}},
}

func tableChoices(kinds []string) map[string][]string {
	c := map[string][]string{"format": tableFormats, "header": {"auto", "yes", "no"}, "bad": {"error", "skip"}}
	if kinds != nil {
		c["kind"] = kinds
	}
	return c
}

// offer registers the completion of flag values.
func offer(root *cobra.Command) error {
	for verb, flags := range choices {
		cmd, _, err := root.Find(strings.Fields(verb))
		if err != nil {
			return err
		}
		for flag, values := range flags {
			offered := slices.Clone(values)
			err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return offered, cobra.ShellCompDirectiveNoFileComp
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// folders returns the completion of n arguments that are folders.
func folders(n int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) < n {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
