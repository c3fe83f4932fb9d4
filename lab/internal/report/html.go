package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// section is the part of the page that shows one experiment.
type section struct {
	*experiment.Result
	Doc    string
	Plots  []template.HTML
	Table  Table
	Every  *Table // table of all rows, if Table combines rows
	Limits []limit
	Others []fact // published figures
	Given  string // parameters
}

// fact is a name with a value, such as a property of the machine.
type fact struct{ Name, Value string }

// HTML writes results as one self-contained page. Plots are inline SVG, and colors follow the
// reader's choice of light or dark. command is the command line that repeats the measurement.
func HTML(w io.Writer, results []*experiment.Result, command string) error {
	if len(results) == 0 {
		return fmt.Errorf("report: no results to show")
	}
	sections := make([]section, len(results))
	for i, res := range results {
		doc := "" // empty for an experiment that no longer exists
		if found, err := experiment.Find(res.Experiment); err == nil {
			doc = found[0].Doc
		}
		s := section{Result: res, Doc: doc, Table: Tabulate(res), Others: published(res), Given: parameters(res)}
		if res.Experiment != "roofline" {
			s.Limits = limits(res)
		}
		if pivoted(res) {
			every := list(res.Rows)
			s.Every = &every
		}
		for _, p := range res.Plots {
			svg, err := inlineSVG(p)
			if err != nil {
				return err
			}
			s.Plots = append(s.Plots, template.HTML(svg))
		}
		sections[i] = s
	}
	first := results[0]
	return page.Execute(w, map[string]any{
		"Headline": headline(results),
		"Sections": sections,
		"Device":   first.Device,
		"Date":     first.Date.Format("2006-01-02 15:04 UTC"),
		"Version":  first.Version,
		"Machine":  machine(first.Hardware),
		"Command":  command,
	})
}

func machine(h experiment.Hardware) []fact {
	facts := []fact{{"Device", fmt.Sprintf("%s (%s)", h.Name, h.Kind)}}
	add := func(present bool, name, format string, args ...any) {
		if present {
			facts = append(facts, fact{name, fmt.Sprintf(format, args...)})
		}
	}
	add(h.Kind == "cpu", "Cores used", "%d", h.Units)
	add(h.Kind != "cpu", "Multiprocessors", "%d", h.Units)
	add(h.Arch > 0, "Compute capability", "%d.%d", h.Arch/10, h.Arch%10)
	add(h.CacheBytes > 0, "Last shared cache", "%s", bytes(float64(h.CacheBytes)))
	add(h.MemoryBytes > 0, "Memory", "%s", bytes(float64(h.MemoryBytes)))
	add(h.Driver != "", "Driver", "%s", h.Driver)
	add(strings.TrimSpace(h.Host) != "", "Host", "%s, %d cores", h.Host, h.HostCores)
	add(true, "System", "%s, %s", h.OS, h.Go)
	return facts
}
