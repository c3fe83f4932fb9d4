package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftgo/weft/internal/atomicfile"
	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/lab/internal/experiment"
	"github.com/weftgo/weft/lab/internal/report"
)

func newReportCommand(a *app) *cobra.Command {
	var o outputs
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Print results that were saved as JSON, and write pages and plots of them",
		Example: `  weft-bench report results/2026-11-24-h200/slabhash-fig4a.json
  weft-bench report --html page.html --svg plots results/2026-11-24-h200/slabhash-*.json`,
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usage("report: want at least one file with the output of weft-bench run --json")
			}
			if err := o.check(a, files); err != nil {
				return err
			}
			var results []*experiment.Result
			for _, file := range files {
				more, err := readResults(file)
				if err != nil {
					return fmt.Errorf("%s: %w", file, reason(err))
				}
				for _, r := range more {
					r.Redraw()
				}
				results = append(results, more...)
			}
			return o.write(a, results, "weft-bench report "+strings.Join(files, " "))
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// readResults reads a file that run --json has written: an object, or an array of objects.
func readResults(file string) (results []*experiment.Result, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = json.Unmarshal(text, &results)
	} else {
		results = []*experiment.Result{{}}
		err = json.Unmarshal(text, results[0])
	}
	for _, r := range results {
		if err == nil && (r == nil || r.Experiment == "" || len(r.Rows) == 0) {
			err = errors.New("want the output of weft-bench run --json, with an experiment and its rows")
		}
	}
	return results, err
}

// outputs holds the flags of subcommands that print results and write them to files.
type outputs struct {
	json      bool
	format    string // format of the printed output
	html, svg string // names of a file and of a folder
	plan      *outfile.Plan
}

func (o *outputs) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON, like --format json")
	f.StringVar(&o.format, "format", "table", "output format: table, json, or benchstat (Go benchmarks, one line per run)")
	f.Var(nameValue{&o.html}, "html", "also write a self-contained page to `FILE`; replaces only HTML pages")
	f.Var(nameValue{&o.svg}, "svg", "also write the plots to folder `DIR`; replaces only SVG images")
}

// nameValue is a flag for the name of a file or folder, which must not be empty.
type nameValue struct{ name *string }

func (v nameValue) String() string {
	if v.name == nil {
		return ""
	}
	return *v.name
}

func (v nameValue) Type() string { return "string" }

func (v nameValue) Set(text string) error {
	if text == "" {
		return errors.New("want a name of a file or folder")
	}
	*v.name = text
	return nil
}

// formats are the formats of printed output.
var formats = []string{"table", "json", "benchstat"}

// check returns an error if an output cannot be written or would overwrite an input.
func (o *outputs) check(a *app, inputs []string) (err error) {
	if !slices.Contains(formats, o.format) {
		return usage("--format %s: want one of %s", o.format, strings.Join(formats, ", "))
	}
	if o.json {
		o.format = "json"
	}
	if o.plan, err = outfile.New(inputs, a.stdin, a.stdout); err != nil {
		return err
	}
	if o.html != "" {
		if err := o.plan.Writes("--html", o.html, outfile.HTML, true); err != nil {
			return err
		}
	}
	if o.svg != "" {
		err := os.MkdirAll(o.svg, 0o755)
		if err == nil {
			err = checkWritable(o.svg)
		}
		if err != nil {
			return fmt.Errorf("--svg %s: %w", o.svg, reason(err))
		}
	}
	return nil
}

// checkWritable returns an error if no file can be created in a folder.
func checkWritable(dir string) error {
	f, err := atomicfile.Create(filepath.Join(dir, ".weft"))
	if err != nil {
		return err
	}
	f.Abort()
	return nil
}

// write prints results, and writes them to the files that flags name. command is the command line
// that produced the results.
func (o *outputs) write(a *app, results []*experiment.Result, command string) error {
	if err := o.print(a, results); err != nil {
		return err
	}
	if o.svg != "" {
		if err := o.writePlots(results); err != nil {
			return err
		}
	}
	if o.html != "" {
		return writePage(o.html, results, command)
	}
	return nil
}

func (o *outputs) print(a *app, results []*experiment.Result) error {
	switch o.format {
	case "benchstat":
		return report.Benchmarks(a.stdout, results)
	case "table":
		return report.Write(a.stdout, results)
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if len(results) == 1 {
		return enc.Encode(results[0])
	}
	return enc.Encode(results)
}

func (o *outputs) writePlots(results []*experiment.Result) error {
	for _, res := range results {
		for _, p := range res.Plots {
			svg, err := report.SVG(p)
			if err != nil {
				return err
			}
			file := filepath.Join(o.svg, p.Name+".svg")
			if err := o.plan.Writes("--svg", file, outfile.SVG, true); err != nil {
				return err
			}
			if err := atomicfile.WriteFile(file, svg); err != nil {
				return err
			}
		}
	}
	return nil
}

func writePage(file string, results []*experiment.Result, command string) error {
	f, err := atomicfile.Create(file)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := report.HTML(f, results, command); err != nil {
		return err
	}
	return f.Commit()
}
