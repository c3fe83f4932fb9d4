package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The guide shows this example, and a kernel on trees, word for word.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/refs.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, name := range []string{"rows.cuh", "kernel.cu", "draft.cu", "main.go", "main_test.go", "../../lab/internal/mixedtree/mixedtree.cu"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(b)
	}
	blocks := regexp.MustCompile("(?s)```(?:go|c\\+\\+)\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(blocks) < 5 {
		t.Fatalf("%d blocks of code", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(sources.String(), string(b[1])) {
			t.Errorf("the example has nothing like\n%s", b[1])
		}
	}
}
