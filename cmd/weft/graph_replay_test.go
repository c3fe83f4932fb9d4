package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
)

// The result of a replay equals the result of the verb for the lines in the window.
func TestGraphReplay(t *testing.T) {
	conformance.SkipRaced(t, "graphs run on many cores in their own tests")
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 8))
	var lines []string
	for range 3000 { // some are repeated, reversed, or self loops
		lines = append(lines, fmt.Sprintf("%d %d\n", r.IntN(60), r.IntN(60)))
	}
	write := func(name string, lines []string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
		return path
	}
	all := write("all.txt", lines)
	for _, window := range []int{0, 250, 900, 5000} {
		left := lines
		if window > 0 && window < len(lines) {
			left = lines[len(lines)-window:]
		}
		// Vertices that occur only before the window remain without edges.
		for v := range 60 {
			left = append(slices.Clip(left), fmt.Sprintf("%d %d\n", v, v))
		}
		rest := write("rest.txt", left)
		for result, verb := range map[string][]string{
			"components": {"components"}, "triangles": {"triangles"}, "edges": {"stats", "--undirected"}, "pagerank": {"pagerank", "--directed", "--tolerance=1e-12"},
		} {
			direction := "--undirected"
			if result == "pagerank" {
				direction = "--directed"
			}
			got := graphJSON(t, "replay", "--json", direction, "--batch=250", "--every=5", fmt.Sprintf("--window=%d", window), "--result="+result, all)
			want := graphJSON(t, append(verb, "--json", rest)...)
			samples := got["samples"].([]any)
			last := samples[len(samples)-1].(map[string]any)
			value, vertex, off := want[result], "", 0.
			if result == "pagerank" {
				top := want["top"].([]any)[0].(map[string]any)
				value, vertex, off = top["rank"], top["vertex"].(string), 1e-5
			}
			if len(samples) != 3 || math.Abs(last["value"].(float64)-value.(float64)) > off || last["vertex"] != vertex || got["edges"] != want["edges"] || last["edges"] != want["edges"] {
				t.Errorf("window %d, %s: %v in %d samples with %v edges, want %v %s with %v", window, result, last, len(samples), got["edges"], value, vertex, want["edges"])
			}
			if got["listed"] != 3000. || got["updates_per_second"].(float64) <= 0 || (window == 250 || window == 900) != (got["updates"].(float64) > 3000) {
				t.Errorf("window %d, %s: %v updates of %v lines, %v/s", window, result, got["updates"], got["listed"], got["updates_per_second"])
			}
		}
	}
}

// Without --json, about twenty results are printed, one per line.
func TestGraphReplayText(t *testing.T) {
	for _, tt := range []struct {
		args []string
		say  string
		rows int
	}{
		{[]string{karate}, "at 78  78 edges, 1 component; ", 1},
		{[]string{"--batch=2", "--result=triangles", karate}, "at 78  78 edges, 45 triangles; ", 20},
		{[]string{"--batch=10", "--window=20", "--result=edges", karate}, "at 78  20 edges; ", 8},
		{[]string{"--batch=10", "--every=4", "--result=pagerank", karate}, "highest rank 0.1009 of 34; ", 2},
	} {
		stdout, stderr, status := runWeft(t, "", append([]string{"graph", "replay"}, tt.args...)...)
		if rows := strings.Count(stdout, "\n  at "); status != exitOK || stderr != "" || rows != tt.rows || !strings.Contains(stdout, tt.say) {
			t.Errorf("graph replay %q: exit status %d, %d rows, want %d and %q:\n%s%s", tt.args, status, rows, tt.rows, tt.say, stdout, stderr)
		}
	}
	for args, say := range map[string]string{
		"--result=cycles":         `graph replay --result "cycles": want components, triangles, pagerank, edges`,
		"--batch=0":               "graph replay --batch 0: want at least 1",
		"--window=5 --batch=9":    "graph replay --window 5: want at least --batch, 9, or 0 for none",
		"--every=-1":              "graph replay --every -1: must not be negative",
		"--directed --undirected": "graph replay --directed --undirected: want one of them",
	} {
		stdout, stderr, status := runWeft(t, "", append(append([]string{"graph", "replay"}, strings.Fields(args)...), karate)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, say) {
			t.Errorf("graph replay %s: exit status %d, %q", args, status, stderr)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.txt")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, result := range replayResults {
		if got := graphJSON(t, "replay", "--json", "--result="+result, empty); got["updates"] != 0. || got["edges"] != 0. || len(got["samples"].([]any)) != 0 {
			t.Errorf("of nothing: %v", got)
		}
	}
}
