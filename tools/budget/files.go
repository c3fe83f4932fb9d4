package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxColumns is the maximum width of a line of code.
	maxColumns = 100
	// tabColumns is the width of a tab in such a line.
	tabColumns = 4
	// maxProse is the maximum width of a line of prose in Markdown.
	maxProse = 120
)

// generated matches the line that marks a generated file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// onlyLink matches a line of Markdown that consists of one link, which cannot be wrapped.
var onlyLink = regexp.MustCompile(`^\s*(?:[-*] )?\[[^\]]*\](?:\([^)]*\)|: \S+)\.?$`)

// fileFigures returns the figures of the files that git tracks.
func fileFigures() ([]figure, error) {
	out, err := output("git", "ls-files", "-z", "--", "*.ptx", "*.go", "*.cu", "*.cuh", "*.md")
	if err != nil {
		return nil, err
	}
	return measureFiles(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), os.ReadFile)
}

// measureFiles returns the figures of files. They count the bytes of PTX. They count the
// handwritten lines, without tests, of the product, of the lab, and of the largest package. They
// also count lines that are too long, in tests and Markdown, too.
func measureFiles(names []string, read func(string) ([]byte, error)) ([]figure, error) {
	f := func(name string) figure { return figure{name: name, parts: make(map[string]int64)} }
	ptx, lines, long := f("ptx"), f("lines"), f("long-lines")
	labPTX, labLines, pages := f("lab.ptx"), f("lab.lines"), f("long-prose")
	for _, name := range names {
		content, err := read(name)
		if os.IsNotExist(err) {
			continue // deleted, but still in the index
		} else if err != nil {
			return nil, err
		}
		dir, ext, text := path.Dir(name), path.Ext(name), string(content)
		bytesOf, linesOf := &ptx, &lines
		if strings.HasPrefix(name, "lab/") {
			bytesOf, linesOf = &labPTX, &labLines
		}
		switch {
		case ext == ".ptx":
			bytesOf.add(dir, int64(len(text)))
			continue
		case ext == ".md":
			if n := proseTooLong(text); n > 0 {
				pages.add(name, n)
			}
			continue
		case generated.MatchString(text):
			continue
		case !strings.HasSuffix(name, "_test.go"):
			linesOf.add(dir, int64(strings.Count(text, "\n")))
		}
		if n := tooLong(text); n > 0 {
			long.add(name, n)
		}
	}
	largest := figure{name: "package.lines", parts: lines.parts}
	for _, n := range lines.parts {
		largest.value = max(largest.value, n)
	}
	return []figure{ptx, labPTX, lines, labLines, largest, long, pages}, nil
}

func tooLong(text string) (n int64) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line)+(tabColumns-1)*strings.Count(line, "\t") > maxColumns {
			n++
		}
	}
	return n
}

// proseTooLong counts the lines of a page that are longer than maxProse. Tables, code, and lines
// that consist of one link do not count.
func proseTooLong(text string) (n int64) {
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		start := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(start, "```"):
			code = !code
		case code || strings.HasPrefix(start, "|") || onlyLink.MatchString(line):
		case utf8.RuneCountInString(line) > maxProse:
			n++
		}
	}
	return n
}
