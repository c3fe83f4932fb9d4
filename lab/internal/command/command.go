// Package command has what the commands of this module share: exiting and reporting.
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

// Main runs a command, and exits with 1 if it fails.
func Main(name string, run func(args []string, stdout, stderr io.Writer) error) {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Head is the first part of each report.
type Head struct {
	Date time.Time `json:"date"`
	Go   string    `json:"go"`
	Runs int       `json:"runs"`
}

// NewHead returns the head of a new report of a number of runs.
func NewHead(runs int) Head {
	return Head{time.Now().UTC().Truncate(time.Second), runtime.Version(), runs}
}

// WriteJSON writes a report.
func WriteJSON(w io.Writer, report any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// Median returns the median of some numbers, and sorts them.
func Median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
