// Command budget compares figures such as the size of weft's binaries with the budgets in a file.
// It prints each figure and its largest contributors, and fails if a figure exceeds its budget. Run
// it in the root of the repository.
//
//	budget tools/budget/budgets.txt
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A figure is a quantity that has a budget.
type figure struct {
	name  string
	value int64
	parts map[string]int64 // contributions by name; value is not always their sum
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: budget FILE")
		os.Exit(2)
	}
	over, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "budget: %v\n", err)
		os.Exit(1)
	}
	if len(over) > 0 {
		fmt.Fprintf(os.Stderr, "budget: over budget:\n%s\n", strings.Join(over, "\n"))
		os.Exit(1)
	}
}

func run(name string) ([]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	budgets, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	programs, err := programFigures()
	if err != nil {
		return nil, err
	}
	files, err := fileFigures()
	if err != nil {
		return nil, err
	}
	table, over, err := check(append(programs, files...), budgets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fmt.Print(table)
	return over, nil
}

// parse reads budgets. Each line has the name of a figure and its budget. Comments begin with #.
func parse(text string) (map[string]int64, error) {
	budgets := make(map[string]int64)
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var n int64
		err := fmt.Errorf("want a name and a number")
		if len(fields) == 2 {
			n, err = strconv.ParseInt(strings.ReplaceAll(fields[1], "_", ""), 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		if _, exists := budgets[fields[0]]; exists {
			return nil, fmt.Errorf("%q: a second budget", fields[0])
		}
		budgets[fields[0]] = n
	}
	return budgets, nil
}

// check returns a table of all figures, and one line per figure that exceeds its budget. Every
// figure must have a budget, and every budget a figure.
func check(figures []figure, budgets map[string]int64) (table string, over []string, err error) {
	var b strings.Builder
	unused := maps.Clone(budgets)
	fmt.Fprintf(&b, "%-16s %14s %14s  largest contributors\n", "", "figure", "budget")
	for _, f := range figures {
		budget, ok := unused[f.name]
		if !ok {
			return "", nil, fmt.Errorf("%s: no budget; it is %d now", f.name, f.value)
		}
		delete(unused, f.name)
		fmt.Fprintf(&b, "%-16s %14s %14s  %s\n",
			f.name, grouped(f.value), grouped(budget), f.largest(3))
		if f.value > budget {
			over = append(over, fmt.Sprintf("%s is %s, its budget %s; largest contributors: %s",
				f.name, grouped(f.value), grouped(budget), f.largest(12)))
		}
	}
	for name := range unused {
		return "", nil, fmt.Errorf("%s: no such figure", name)
	}
	return b.String(), over, nil
}

// largest lists the n largest contributors.
func (f figure) largest(n int) string {
	names := slices.SortedFunc(maps.Keys(f.parts), func(a, b string) int {
		if f.parts[a] != f.parts[b] {
			return int(f.parts[b] - f.parts[a])
		}
		return strings.Compare(a, b)
	})
	var list []string
	for _, name := range names[:min(n, len(names))] {
		list = append(list, name+" "+grouped(f.parts[name]))
	}
	return strings.Join(list, ", ")
}

// grouped formats a number with a _ between groups of three digits, as the budget file does.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}
