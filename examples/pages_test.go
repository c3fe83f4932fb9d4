package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the pages with blocks of Go that together form the body of an example here.
var pages = []struct{ page, file, example string }{
	{"README.md", "readme_test.go", "Example"},
	{"docs/distinct.md", "guides_test.go", "Example_distinct"},
	{"docs/groups.md", "guides_test.go", "Example_groups"},
	{"docs/joins.md", "guides_test.go", "Example_joins"},
	{"docs/ids.md", "guides_test.go", "Example_ids"},
	{"docs/ordered.md", "guides_test.go", "Example_ordered"},
	{"docs/graphs.md", "guides_test.go", "Example_graphs"},
	{"docs/batches.md", "guides_test.go", "Example_batches"},
	{"docs/durability.md", "../durable/example_test.go", "Example"},
}

// The code on pages is compiled and run.
func TestPages(t *testing.T) {
	for _, p := range pages {
		page, err := os.ReadFile(filepath.Join("..", p.page))
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		var blocks []string
		for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1) {
			blocks = append(blocks, strings.TrimSpace(string(m[1])))
		}
		body := regexp.MustCompile(`(?s)\nfunc ` + p.example + `\(\) \{\n(.*?)\n\}\n`).FindSubmatch(source)
		if blocks == nil || body == nil {
			t.Errorf("no blocks of Go in %s, or no %s in %s", p.page, p.example, p.file)
			continue
		}
		want, _, _ := strings.Cut(strings.ReplaceAll("\n"+string(body[1]), "\n\t", "\n"), "\n// Output:")
		if got := strings.Join(blocks, "\n\n"); got != strings.TrimSpace(want) {
			t.Errorf("%s shows:\n%s\n\nbut %s is:\n%s", p.page, got, p.example, strings.TrimSpace(want))
		}
	}
}

// The README stays short. Longer texts belong in docs.
func TestReadmeIsShort(t *testing.T) {
	const most = 140 // including the output of the first command, and how to depend on a checkout
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > most {
		t.Errorf("README.md has %d lines, want at most %d", n, most)
	}
}
