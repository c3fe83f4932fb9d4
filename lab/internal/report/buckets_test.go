package report

import (
	gobytes "bytes"
	"strings"
	"testing"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// Bucket statistics of tables are shown with the model, and in a comparison also after the churn.
func TestTablesOfBuckets(t *testing.T) {
	insert := experiment.Row{
		Structure: "horton", Op: "insert", KeyBits: 32, ValueBits: 32, N: 1000, Load: .9, OpsPerS: 1e9, Slots: 8, TableBytes: 16 << 10,
		BytesPerOp: figure(81.1), Requested: &experiment.Requested{Sectors: 2.2812, Lines: 1.1406}, Measured: &experiment.Reads{PerHit: 1.1421, PerMiss: 1.0454}, Model: &experiment.Reads{PerHit: 1.142, PerMiss: 1.0487},
	}
	churn, denser := insert, insert
	churn.Op, churn.Measured = "churn", &experiment.Reads{PerHit: 1.25, PerMiss: 1.5}
	denser.Load = .95
	for _, c := range []struct {
		experiment string
		rows       []experiment.Row
		want       []string
	}{
		{"horton-fig12", []experiment.Row{insert}, []string{
			"B/op computed  sectors/op simulated  lines/op simulated  per hit   model  per miss   model", "81.1                 2.281               1.141   1.1421  1.1420    1.0454  1.0487", "16.4 kB",
		}},
		{"horton-side-by-side", []experiment.Row{insert, churn, denser}, []string{
			"per hit  per miss  per hit, churn  per miss, churn", "1.1421    1.0454          1.2500           1.5000",
		}},
	} {
		var text gobytes.Buffer
		if err := Write(&text, []*experiment.Result{{Experiment: c.experiment, Rows: c.rows}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s lacks %q:\n%s", c.experiment, want, text.String())
			}
		}
	}
}

// A model is a dashed line in the color of its subject. An axis that begins at 1 is labeled so.
func TestSVGOfAModel(t *testing.T) {
	p := experiment.Plot{Name: "p", Title: "Model", XLabel: "load", YLabel: "buckets", YMin: 1, Series: []experiment.Series{
		{Name: "8 slots", X: []float64{.5, .9}, Y: []float64{1.01, 1.14}},
		{Name: "8 slots, model", X: []float64{.5, .9}, Y: []float64{1.01, 1.14}, Model: true},
		{Name: "16 slots", X: []float64{.5, .9}, Y: []float64{1, 1.08}},
	}}
	svg, err := SVG(p)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ToLower(string(svg))
	first, second, third := "#1f83c4", "#e69f00", "#009e73" // of the palette
	if strings.Count(text, "stroke-dasharray") != 2 || !strings.Contains(text, first) || !strings.Contains(text, second) || strings.Contains(text, third) {
		t.Errorf("colors and dashes of\n%s", svg)
	}
	if !strings.Contains(text, ">1.02<") || strings.Contains(text, ">0.5<") {
		t.Errorf("the axis of y is not that of buckets from 1 on:\n%s", svg)
	}
}
