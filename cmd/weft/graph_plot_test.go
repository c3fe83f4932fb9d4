package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGraphPlots(t *testing.T) {
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "path.el"), filepath.Join(dir, "loop.el")
	for name, edges := range map[string]string{file: "0 1\n1 2\n2 3\n3 0\n0 2\n", empty: "0 0\n"} {
		if err := os.WriteFile(name, []byte(edges), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		stderr string
		svg    []string // texts in the image
	}{
		{[]string{"stats", file}, exitOK, "", []string{"Degrees of path.el", "vertices"}},
		{[]string{"replay", "--batch=1", "--result=triangles", file}, exitOK, "", []string{"path.el in batches of 1", "triangles"}},
		{[]string{"replay", "--batch=2", "--result=pagerank", file}, exitOK, "", []string{"highest rank"}},
		{[]string{"stats", empty}, exitFailed, "the graph has no edges to draw", nil},
	} {
		plot := filepath.Join(dir, "plot.svg")
		stdout, stderr, status := runWeft(t, "", append([]string{"--device=cpu", "graph", c.args[0], "--svg=" + plot}, c.args[1:]...)...)
		if status != c.status || !strings.Contains(stderr, c.stderr) || !strings.Contains(stdout, "vertices") {
			t.Errorf("%v: status %d, %q, %q", c.args, status, stdout, stderr)
		}
		if c.svg == nil {
			continue
		}
		svg, err := os.ReadFile(plot)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.svg {
			if !strings.Contains(string(svg), want) {
				t.Errorf("%v: the plot does not say %q", c.args, want)
			}
		}
	}
	for name, want := range map[string]string{filepath.Join(dir, "none", "x.svg"): "no such file or directory", dir: "is a directory"} {
		if _, stderr, status := runWeft(t, "", "graph", "stats", "--svg="+name, file); status != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("--svg=%s: status %d, %q", name, status, stderr)
		}
	}
}
