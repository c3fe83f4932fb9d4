// Package command has what the commands of this module have in common: how they end, and what they report.
package command

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// Main runs a command, and exits with 1 where it fails.
func Main(name string, run func(args []string, stdout, stderr io.Writer) error) {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Head is what each report begins with.
type Head struct {
	Date time.Time `json:"date"`
	Go   string    `json:"go"`
	Runs int       `json:"runs"`
}

// NewHead is that of a report that is made now, of so many runs.
func NewHead(runs int) Head {
	return Head{time.Now().UTC().Truncate(time.Second), runtime.Version(), runs}
}

// WriteJSON writes a report.
func WriteJSON(w io.Writer, report any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// Median is that of some numbers, which it sorts.
func Median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
