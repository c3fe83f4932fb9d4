package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxColumns is the longest line that STYLE allows.
	maxColumns = 100
	// tabColumns is the width of a tab in such a line.
	tabColumns = 4
)

// generated matches the line that marks a generated file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// fileFigures returns the figures of the files that git tracks.
func fileFigures() ([]figure, error) {
	out, err := output("git", "ls-files", "-z", "--", "*.ptx", "*.go", "*.cu", "*.cuh")
	if err != nil {
		return nil, err
	}
	return weigh(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), os.ReadFile)
}

// weigh returns the figures of files: bytes of PTX, handwritten lines outside tests (of the
// product, the lab and the largest package), and lines that are too long, in tests as well.
func weigh(names []string, read func(string) ([]byte, error)) ([]figure, error) {
	f := func(name string) figure { return figure{name: name, parts: make(map[string]int64)} }
	ptx, lines, long := f("ptx"), f("lines"), f("long-lines")
	labPTX, labLines := f("lab.ptx"), f("lab.lines")
	for _, name := range names {
		content, err := read(name)
		if os.IsNotExist(err) {
			continue // deleted, and not yet in the index
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
	return []figure{ptx, labPTX, lines, labLines, largest, long}, nil
}

// tooLong counts the lines of a text that are longer than maxColumns.
func tooLong(text string) (n int64) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line)+(tabColumns-1)*strings.Count(line, "\t") > maxColumns {
			n++
		}
	}
	return n
}
