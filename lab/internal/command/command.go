// Package command contains code that the commands of this module share.
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

// Main runs a command. If the command fails, Main prints the error and exits with 1.
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

// NewHead returns the head of a report on the given number of runs.
func NewHead(runs int) Head {
	return Head{time.Now().UTC().Truncate(time.Second), runtime.Version(), runs}
}

// WriteJSON writes a report as JSON.
func WriteJSON(w io.Writer, report any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// Median sorts numbers and returns their upper median.
func Median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
