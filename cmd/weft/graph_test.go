package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// karate is a well-known graph.
var karate = filepath.Join("..", "..", "graph", "load", "testdata", "karate.txt")

// graphJSON runs a verb and returns its JSON output, without the members that vary.
func graphJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	stdout, stderr, status := runWeft(t, "", append([]string{"graph"}, args...)...)
	if status != exitOK || stderr != "" {
		t.Fatalf("graph %q: exit status %d: %s", args, status, stderr)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	for _, seconds := range []string{"load_seconds", "build_seconds", "seconds"} {
		if s, ok := got[seconds].(float64); !ok || s < 0 {
			t.Errorf("%s is %v", seconds, got[seconds])
		}
		delete(got, seconds)
	}
	return got
}

// For a graph with known results, each verb prints them.
func TestGraphJSON(t *testing.T) {
	weighted := filepath.Join(t.TempDir(), "trips.csv")
	must(t, os.WriteFile(weighted, []byte("from,to,km\nBern,Thun,18\nThun,Spiez,9.5\nBern,Spiez,40\nBasel,Basel,1\n"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"triangles", karate}, `"edges":78,"format":"txt","header":false,"directed":false,"vertices":34,"triangles":45,"wedges":528,"transitivity":0.2556818181818182`},
		{[]string{"components", karate}, `"components":1,"largest":34,"sizes":[{"vertices":34,"components":1}]`},
		{[]string{"bfs", "--source", "1", karate}, `"source":"1","reached":34,"depth":3,"levels":[1,16,9,8]`},
		{[]string{"bfs", karate}, `"source":"34","reached":34,"depth":4`},
		{[]string{"bfs", "--directed", "--source=34", karate}, `"directed":true,"edges":78,"reached":1,"depth":0,"levels":[1]`},
		{[]string{"kcore", karate}, `"largest":4,"cores":[{"core":1,"vertices":1},{"core":2,"vertices":11},{"core":3,"vertices":12},{"core":4,"vertices":10}]`},
		{[]string{"sssp", "--source", "1", karate}, `"weighted":false,"reached":34,"distance_max":3,"farthest":"15"`},
		{[]string{"sssp", "--source", "Bern", weighted}, `"weighted":true,"reached":3,"distance_max":27.5,"farthest":"Spiez","source":"Bern","edges":3`},
		{[]string{"sssp", "--source=Bern", "--directed", "--header=yes", "--columns=to,from,km", weighted}, `"reached":1,"distance_max":0,"farthest":"Bern","directed":true`},
		{[]string{"stats", karate}, `"listed":78,"self_loops":0,"repeated":0,"weighted":false,"weights":"none","ids":"integer","vertex_weights":false,"isolated":0,"degree_min":1,"degree_max":17,"degree_mean":4.588235294117647`},
		{[]string{"stats", weighted}, `"listed":4,"self_loops":1,"repeated":0,"weighted":true,"weights":"real","ids":"string","isolated":1,"header":true,"format":"csv","vertices":4,"edges":3,"degrees":[{"from":0,"to":0,"vertices":1},{"from":2,"to":3,"vertices":3}]`},
		{[]string{"pagerank", "--top=0", karate}, `"top":[],"iterations":30`},
		{[]string{"pagerank", "--device=sim", "--top=0", karate}, `"device":"sim","top":[],"iterations":30`},
		{[]string{"triangles", "--device=sim", karate}, `"device":"sim","triangles":45`},
		{[]string{"components", "--device=sim", karate}, `"device":"sim","components":1,"largest":34`},
		{[]string{"bfs", "--device=sim", "--source=1", karate}, `"device":"sim","levels":[1,16,9,8]`},
		{[]string{"sssp", "--device=sim", "--source=Bern", weighted}, `"device":"sim","reached":3,"distance_max":27.5`},
		{[]string{"kcore", "--device=sim", karate}, `"device":"sim","largest":4`},
	} {
		got := graphJSON(t, append([]string{"--json"}, tt.args...)...)
		var want map[string]any
		must(t, json.Unmarshal([]byte("{"+tt.want+"}"), &want))
		for name, value := range want {
			a, _ := json.Marshal(got[name])
			b, _ := json.Marshal(value)
			if string(a) != string(b) {
				t.Errorf("graph %q: %s is %s, want %s", tt.args, name, a, b)
			}
		}
	}
}

// The help lists exactly the members of the JSON output.
func TestGraphJSONIsDocumented(t *testing.T) {
	root := newRootCommand(&app{})
	for verb, args := range map[string][]string{
		"stats": nil, "triangles": nil, "components": nil, "bfs": nil, "pagerank": nil, "sssp": nil, "kcore": nil, "replay": nil, "convert": {filepath.Join(t.TempDir(), "x.el")},
	} {
		cmd, _, err := root.Find([]string{"graph", verb})
		must(t, err)
		_, help, _ := strings.Cut(cmd.Long, "With --json")
		for _, name := range slices.Sorted(maps.Keys(graphJSON(t, append([]string{verb, "--json", karate}, args...)...))) {
			if !strings.Contains(help, name) {
				t.Errorf("graph %s --help does not say what %s is", verb, name)
			}
		}
	}
}

// Without --json, verbs print text.
func TestGraphText(t *testing.T) {
	// The edge list has three strings. Its first line could be a header.
	const list = "4 2\na b\nb c\n"
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"stats", "--header=no", "--ids=strings", "-"}, []string{"file      standard input (txt)\n", "graph     undirected, 5 vertices, 3 edges\n", "degrees   1 to 2, mean 1.2, sigma 0.4\n", "  1       4\n", "listed    3 edges: 0 self loops and 0 that come again are dropped\n", " to read, "}},
		{[]string{"triangles", karate}, []string{"triangles     45\n", "transitivity  0.2557\n"}},
		{[]string{"components", "--header=no", "--ids=strings", "-"}, []string{"components       2\n", "  of 3 vertices  1\n", "  of 2 vertices  1\n"}},
		{[]string{"bfs", "--header=no", "--ids=strings", "--source=a", "-"}, []string{"source     a\n", "reached    3 vertices, up to depth 2\n", "  depth 1  1\n"}},
		{[]string{"sssp", "--header=no", "--ids=strings", "--source=a", "-"}, []string{"distances  up to 2, of c; mean 1\n"}},
		{[]string{"pagerank", "--top=1", karate}, []string{"iterations  30; the last one changed all ranks by ", "\n  34        0.100919\n"}},
		{[]string{"kcore", karate}, []string{"largest core  4, of 10 vertices\n"}},
		{[]string{"bfs", "--header=no", "--ids=strings", "--values", "--source=a", "-"}, []string{"a 0\nb 1\nc 2\n"}},
		{[]string{"sssp", "--header=no", "--ids=strings", "--values", "--source=b", "-"}, []string{"a 1\nb 0\nc 1\n"}},
		{[]string{"components", "--header=no", "--ids=strings", "--values", "-"}, []string{"4 4\n2 4\na a\nb a\nc a\n"}},
		{[]string{"kcore", "--header=no", "--ids=strings", "--values", "-"}, []string{"4 1\n2 1\na 1\nb 1\nc 1\n"}},
		{[]string{"pagerank", "--header=no", "--ids=strings", "--values", "--iterations=1", "-"}, []string{"4 0.2\n2 0.2\na 0.115\nb 0.37\nc 0.115\n"}},
		{[]string{"sssp", "--json", "--header=no", "--ids=strings", "--values", "--source=b", "-"}, []string{"{\"vertex\":\"a\",\"value\":1}\n{\"vertex\":\"b\",\"value\":0}\n"}},
		{[]string{"components", "--json", "--header=no", "--ids=strings", "--values", "-"}, []string{"{\"vertex\":\"4\",\"value\":\"4\"}\n{\"vertex\":\"2\",\"value\":\"4\"}\n"}},
		{[]string{"convert", "--header=no", "--ids=strings", "--to=csv", "-", "-"}, []string{"source,target\n4,2\na,b\nb,c\n"}},
		{[]string{"convert", "--to=mtx", "--directed", karate, "-"}, []string{"%%MatrixMarket matrix coordinate pattern general\n34 34 78\n1 2\n"}},
	} {
		stdout, stderr, status := runWeft(t, list, append([]string{"graph"}, tt.args...)...)
		if status != exitOK || stderr != "" {
			t.Errorf("graph %q: exit status %d: %s", tt.args, status, stderr)
		}
		for _, want := range tt.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("graph %q: prints %q, want %q", tt.args, stdout, want)
			}
		}
	}
}

// Converting a graph there and back gives the same graph.
func TestGraphConvert(t *testing.T) {
	dir := t.TempDir()
	from := karate
	for _, name := range []string{"a.gr.gz", "a.mtx", "a.graph", "a.csv.zst", "a.wel", "a.el", "a.txt.gz"} {
		to := filepath.Join(dir, name)
		args := []string{"convert", "--json", "--undirected", from, to}
		if name == "a.el" {
			args = append(args, "--unweighted") // .wel files have weights
		}
		got := graphJSON(t, args...)
		if got["out"] != to || got["out_format"] != strings.Split(name, ".")[1] {
			t.Errorf("%s: %v", name, got)
		}
		if name == "a.gr.gz" { // the file and its conversion have each edge twice
			graphJSON(t, "convert", "--json", "--undirected", to, filepath.Join(dir, "b.graph"))
			to = filepath.Join(dir, "b.graph")
		}
		if got := graphJSON(t, "triangles", "--json", to); got["triangles"] != 45. || got["edges"] != 78. {
			t.Errorf("%s: %v", name, got)
		}
		from = to
	}
}

// An error of a file or a command line is one line. It contains the line number of the file.
func TestGraphErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	bad := file("bad.gr", "p sp 2 1\na 1 3 10\n")
	negative := file("negative.txt", "7 8 1\n8 9 -2\n")
	reals := file("reals.txt", "7 8 1.5\n")
	cut := file("cut.txt", "# Nodes: 5 Edges: 2\n7 8\n")
	empty := file("empty.txt", "")
	vertices := file("vertices.graph", "2 1 10\n5 2\n5 1\n")
	wel := file("w.wel", "0 1 5\n")
	for _, tt := range []struct {
		args   []string
		status int
		say    string
	}{
		{[]string{"stats"}, exitUsage, "graph stats: no file given; - is standard input"},
		{[]string{"stats", "a", "b"}, exitUsage, "graph stats a b: one file at a time"},
		{[]string{"stast", "a"}, exitUsage, "graph stast: no such command; did you mean stats?"},
		{[]string{"stats", "--directed", "--undirected", "a"}, exitUsage, "graph stats --directed --undirected: want one of them"},
		{[]string{"stats", "--format=doc", "a"}, exitUsage, `graph stats --format "doc": want auto, mtx`},
		{[]string{"stats", "--header=none", "a"}, exitUsage, `graph stats --header "none": want auto, yes or no`},
		{[]string{"stats", "--ids=names", "a"}, exitUsage, `graph stats --ids "names": want auto, sparse, dense or strings`},
		{[]string{"stats", "--separator=::", "a"}, exitUsage, `graph stats --separator "::": want one character`},
		{[]string{"stats", "--columns=a", "a"}, exitUsage, `graph stats --columns "a": want FROM,TO or FROM,TO,WEIGHT`},
		{[]string{"stats", "--max-vertices=0", "a"}, exitUsage, `graph stats --max-vertices 0: want 1 to`},
		{[]string{"stats", "--device=cuda:0", "a"}, exitUsage, "graph stats --device cuda:0: it works on the CPU only"},
		{[]string{"pagerank", "--damping=1", "a"}, exitUsage, "graph pagerank --damping 1: want"},
		{[]string{"pagerank", "--iterations=0", "a"}, exitUsage, "graph pagerank --iterations 0: want"},
		{[]string{"pagerank", "--tolerance=-1", "a"}, exitUsage, "graph pagerank --tolerance -1: want"},
		{[]string{"pagerank", "--top=-1", "a"}, exitUsage, "graph pagerank --top -1: must"},
		{[]string{"triangles", filepath.Join(dir, "none")}, exitFailed, "graph triangles " + filepath.Join(dir, "none") + ": no such file or directory"},
		{[]string{"triangles", dir}, exitFailed, "graph triangles " + dir + ": is a directory"},
		{[]string{"triangles", bad}, exitFailed, "graph triangles " + bad + ":2: vertex 3: vertices are 1 to 2"},
		{[]string{"triangles", cut}, exitFailed, "graph triangles " + cut + ":1: the comment says 2 edges, but there are 1 lines"},
		{[]string{"triangles", "--max-vertices=2", negative}, exitFailed, "graph triangles " + negative + ":2: vertex 9 is one more than 2, the limit"},
		{[]string{"sssp", negative}, exitFailed, "graph sssp " + negative + ": the edge from 8 to 9 has weight -2"},
		{[]string{"bfs", "--source=6", negative}, exitFailed, "graph bfs " + negative + `: the graph has no vertex "6"`},
		{[]string{"bfs", empty}, exitFailed, "graph bfs " + empty + ": the graph has no vertices"},
		{[]string{"convert", reals}, exitUsage, "graph convert: 1 files given; want FILE and OUT"},
		{[]string{"convert", reals, "-"}, exitUsage, "graph convert -: the name does not show a known format; set --to"},
		{[]string{"convert", reals, "x.doc"}, exitUsage, "graph convert x.doc: the name does not show a known format; set --to"},
		{[]string{"convert", "--to=doc", reals, "x"}, exitUsage, `graph convert --to "doc": want auto`},
		{[]string{"convert", "--json", "--to=csv", reals, "-"}, exitUsage, "graph convert --json: standard output already receives the graph; name a file as OUT"},
		{[]string{"convert", reals, filepath.Join(dir, "x.graph")}, exitFailed, "graph convert " + reals + ": write " + filepath.Join(dir, "x.graph") + ": weights of .graph are integers"},
		{[]string{"convert", "--to=el", wel, "-"}, exitFailed, "write standard output: .el files have no weights"},
		{[]string{"convert", "--to=graph", vertices, "-"}, exitFailed, "vertices have sizes or weights, which no format can store; use --unweighted"},
		{[]string{"convert", "--to=adjlist", wel, "-"}, exitFailed, "adjacency lists can be read but not written"},
		{[]string{"convert", "--to=gr", reals, "-"}, exitFailed, "graph convert " + reals + ": write standard output: weights of .gr are integers"},
		{[]string{"convert", reals, filepath.Join(dir, "none", "x.txt")}, exitFailed, "graph convert " + reals + ": write " + filepath.Join(dir, "none", "x.txt") + ": make a file in " + filepath.Join(dir, "none") + "/: no such file or directory"},
	} {
		stdout, stderr, status := runWeft(t, "", append([]string{"graph"}, tt.args...)...)
		first, _, _ := strings.Cut(stderr, "\n")
		if status != tt.status || stdout != "" || !strings.HasPrefix(first, "weft: ") || !strings.Contains(first, tt.say) {
			t.Errorf("graph %q: exit status %d after printing %q, says %q; want %d, %q", tt.args, status, stdout, stderr, tt.status, tt.say)
		}
	}
}

// The command prints the known counts of real graphs.
func TestGraphGolden(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "graphs")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the folder shared/data/graphs is not beside the repository")
	}
	for name, want := range map[string]float64{
		"soc-Epinions.txt": 1_624_481, "git_edges.csv": 523_810, "MIT8.edgelist": 2_370_587, "ca-AstroPh.txt": 1_351_441, "email-Enron.txt": 727_044,
		"rgg_n_2_15_s0.graph": 307_546, "wiki-Vote.txt": 608_389, "delaunay_n15.graph": 65_872, "ego-facebook.txt": 1_612_010, "4elt.graph": 30_269, "email-Eu-core.csv": 105_461,
	} {
		if got := graphJSON(t, "triangles", "--json", filepath.Join(dir, name)); got["triangles"] != want {
			t.Errorf("%s: %v triangles, want %v", name, got["triangles"], want)
		}
	}
	if got := graphJSON(t, "sssp", "--json", "--source=1", filepath.Join(dir, "rome99.gr")); got["reached"] != 3353. || got["directed"] != true || got["weighted"] != true {
		t.Errorf("rome99: %v", got)
	}
}
