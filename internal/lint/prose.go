package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxColumns is the maximum width of a line that has a comment. A tab counts as tabColumns. Long
// lines without a comment count against a budget: see tools/budget.
const maxColumns, tabColumns = 100, 4

// topics are words that underscores must separate from other words in file names.
const topics = `cpu|gpu|graph|ordered|mixed|atomic|strings|bulk|crash|lost`

var (
	// avoided matches the words that comments must not have. It also matches a doc comment that
	// starts with a purpose instead of an action.
	avoided = regexp.MustCompile(`(?i)\b(?:so\s+many|lest|behind)\b|^\s*\w+ is for \[`)
	// marker matches the comment markers at the beginning or end of a line.
	marker = regexp.MustCompile(`(?m)^//+|^/\*|\*/$`)
	// output matches the first line of an example's expected output.
	output = regexp.MustCompile(`(?i)^//\s*(?:unordered )?output:`)
	// wide matches comment lines that may have any width: directives, code, tables and URLs.
	wide = regexp.MustCompile(`^//go:|^//\t|^//\s*\||://`)
	// joined matches a part of a file name that joins a topic to another word.
	joined = regexp.MustCompile(`^(?:` + topics + `)[a-z0-9]{2,}$|^[a-z0-9]+(?:` + topics + `)$`)
)

// A comment is a group of comment lines without code between them.
type comment struct {
	line  int // number of the first line, from 1
	lines []string
}

// text returns the comment without comment markers.
func (c comment) text() string {
	return marker.ReplaceAllString(strings.Join(c.lines, "\n"), "")
}

// comments returns the comments of a handwritten Go or CUDA file, except the expected output of
// examples.
func (t *Tree) comments(name string) (all []comment) {
	switch path.Ext(name) {
	case ".go":
		i, ok := slices.BinarySearchFunc(t.gos, name, func(f goFile, name string) int { return strings.Compare(f.path, name) })
		if !ok || ast.IsGenerated(t.gos[i].ast) {
			return nil
		}
		for _, g := range t.gos[i].ast.Comments {
			c := comment{line: t.fset.Position(g.Pos()).Line}
			for _, part := range g.List {
				if output.MatchString(part.Text) {
					break
				}
				c.lines = append(c.lines, strings.Split(part.Text, "\n")...)
			}
			all = append(all, c)
		}
	case ".cu", ".cuh":
		next := -1 // line after the last comment
		for i, line := range strings.Split(t.read(name), "\n") {
			at := strings.Index(line, "//")
			switch {
			case at < 0:
				continue
			case next != i || strings.TrimSpace(line[:at]) != "":
				all = append(all, comment{line: i + 1})
			}
			last := &all[len(all)-1]
			last.lines = append(last.lines, line[at:])
			next = i + 1
		}
	}
	return all
}

// words reports the words that avoided matches. One of these words is also a name that some files
// declare; comments in such a file may begin a sentence with it.
func words(t *Tree) (found []string) {
	for _, name := range t.files {
		for _, c := range t.comments(name) {
			text := c.text()
			for _, m := range avoided.FindAllStringIndex(text, -1) {
				word := strings.Join(strings.Fields(text[m[0]:m[1]]), " ")
				before := strings.TrimSpace(text[:m[0]])
				begins := before == "" || strings.HasSuffix(before, ".")
				if strings.EqualFold(word, "behind") && begins && t.declares(name, word) {
					continue
				}
				line := c.line + strings.Count(text[:m[0]], "\n")
				found = append(found, fmt.Sprintf("%s:%d: the comment says %q", name, line, word))
			}
		}
	}
	return found
}

// declares reports whether the code of a file contains a word.
func (t *Tree) declares(name, word string) bool {
	return regexp.MustCompile(`(?m)^[^/\n]*\b` + word + `\b`).MatchString(t.read(name))
}

// columns requires lines with a comment to have at most maxColumns, including comments after code.
func columns(t *Tree) (found []string) {
	for _, name := range t.files {
		var lines []string
		for _, c := range t.comments(name) {
			if lines == nil {
				lines = strings.Split(t.read(name), "\n")
			}
			for i, text := range c.lines {
				line := lines[c.line+i-1]
				n := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
				if n > maxColumns && !wide.MatchString(text) {
					found = append(found, fmt.Sprintf("%s:%d: a comment in %d columns, more than %d", name, c.line+i, n, maxColumns))
				}
			}
		}
	}
	return found
}

// names requires underscores between a topic and other words in the names of Go and CUDA files.
// Exempt are parts of a file name that equal the package name.
func names(t *Tree) (found []string) {
	for _, name := range t.files {
		if joins(name) {
			found = append(found, fmt.Sprintf("%s: want an underscore between the words of the name", name))
		}
	}
	return found
}

func joins(name string) bool {
	ext, pkg := path.Ext(name), path.Base(path.Dir(name))
	if ext != ".go" && ext != ".cu" && ext != ".cuh" {
		return false
	}
	return slices.ContainsFunc(strings.Split(strings.TrimSuffix(path.Base(name), ext), "_"), func(part string) bool {
		return part != pkg && joined.MatchString(part)
	})
}
