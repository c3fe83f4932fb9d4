package experiment

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/conformance"
)

// graphExperiments returns the experiments on graphs.
func graphExperiments() []Experiment {
	return slices.DeleteFunc(All(), func(e Experiment) bool { return !strings.HasPrefix(cmp.Or(e.Was, e.Name), "graph-") })
}

// Graph experiments have figures on a simulated GPU, too.
func TestGraphsOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, ownTests)
	for _, e := range []Experiment{graphVerticesExperiment, graphQueryExperiment, graphAlgorithmsExperiment, graphSnapshotsExperiment, graphTrianglesExperiment} {
		cfg := tiny(devicetest.OpenSim(t, nil))
		cfg.N, cfg.Scale = 32, Quick
		res, err := e.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, res)
	}
}

// Every row identifies its graph. Generated graphs name the similar one of the thesis.
func TestGraphShapes(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	file := filepath.Join(t.TempDir(), "ring.txt")
	if err := os.WriteFile(file, []byte("0 1\n1 2\n2 3\n3 0\n0 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := tiny(devicetest.Open(t))
	cfg.N, cfg.Scale, cfg.Graphs = 256, Quick, []string{file}
	for _, e := range graphExperiments() {
		res, err := e.Run(t.Context(), cfg)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		of := map[string]bool{}
		for _, row := range res.Rows {
			g := row.Graph
			of[g.Name] = true
			if g.Name == "ring.txt" && (g.Vertices != 4 || g.Edges != 4 || g.Degrees != Degrees{2, 2, 2, 0} || g.Like != "") {
				t.Errorf("%s: %+v", e.Name, g)
			}
			if (g.Like == "") != (g.LikeDegrees == nil) || g.Name == "roads" && (g.Like != "road_usa" || g.Degrees.Mean < 2 || g.Degrees.Mean > 2.6) {
				t.Errorf("%s: %+v", e.Name, g)
			}
		}
		if len(of) != 3 || !of["ring.txt"] {
			t.Errorf("%s: rows of %v", e.Name, of)
		}
	}
	cfg.Graphs, cfg.Only, cfg.Scale = nil, []string{bulkGraph.name}, Full
	// Two layouts, in two orders.
	if res, err := graphBuildExperiment.Run(t.Context(), cfg); err != nil || len(res.Rows) != 4 {
		t.Errorf("a large graph at once: %v, %v", res, err)
	}
	cfg.Scale = Quick
	cfg.Only = []string{"roads", "moon"}
	if res, err := graphQueryExperiment.Run(t.Context(), cfg); err != nil || slices.ContainsFunc(res.Rows, func(r Row) bool { return r.Graph.Name != "roads" }) {
		t.Errorf("roads alone: %v", err)
	}
	cfg.Only = cfg.Only[1:]
	if _, err := graphQueryExperiment.Run(t.Context(), cfg); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "no graph moon; there are roads, rmat") {
		t.Errorf("a graph that nobody generates: %v", err)
	}
	cfg.Only = nil
	cfg.Graphs = []string{file + "x"}
	if _, err := graphQueryExperiment.Run(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Graphs = []string{file}
	if _, err := graphQueryExperiment.Run(t.Context(), cfg); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "ring.txt: ") {
		t.Errorf("a file without edges: %v", err)
	}
}

// Wherever the device fails, the error is returned and nothing leaks.
func TestGraphFailures(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	for _, e := range graphExperiments() {
		t.Run(e.Name, func(t *testing.T) { failEverywhere(t, e, devicetest.Open(t), 5) })
	}
}

// If a graph has wrong contents, the experiment fails.
func TestGraphWrongAnswers(t *testing.T) {
	r := testRunner(t)
	r.Scale = Quick
	graphs := 0
	err := r.eachGraph(t.Context(), func(g *graphTrial) (err error) {
		graphs++
		changed, err := g.load(t.Context(), true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, changed.Close()) }()
		if _, err := changed.Delete(t.Context(), g.from[:1], g.csr.Targets()[:1], nil); err != nil {
			return err
		}
		if err := counted(changed, "are left", g.csr.Arcs()-1); err != nil {
			t.Error(err)
		}
		all := graph.Edges{From: g.from, To: g.csr.Targets()}
		for name, err := range map[string]error{
			"edges":   counted(changed, "are left", g.csr.Arcs()),
			"has":     g.has(t.Context(), changed, "has_hit", all),
			"degrees": g.degrees(t.Context(), changed, g.from),
			"rows":    g.rows(t.Context(), changed),
		} {
			if !errors.Is(err, errWrong) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil || graphs != 2 {
		t.Errorf("%d graphs: %v", graphs, err)
	}
}
