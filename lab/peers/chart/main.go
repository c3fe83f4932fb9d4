// Command chart draws the chart of the README from committed results. It shows weft and the maps
// that Go programs use on a CPU, and weft and the best other tables on a GPU.
//
//	GOWORK=off go run ./peers/chart >../docs/rates.svg
package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/weftgo/weft/lab/internal/command"
)

func main() {
	command.Main("chart", func(_ []string, stdout, _ io.Writer) error { return draw(stdout, ".") })
}

// Paths of the results, relative to the folder of this module.
const (
	cpuResults  = "results/2026-11-20-xeon-2cores/peers.json"
	gpuResults  = "results/2026-11-24-h200/horton-side-by-side.json"
	gpuOthers   = "NOTES.md" // section "Other people's tables"
	load        = 0.8
	cpuKeys     = 10_000_000
	cpuCores    = 2
	gpuKeyWidth = 32
)

// operations are the compared operations, in the order of the rates in bars.
var operations = [3]string{"insert", "hit", "miss"}

// bars holds the rates of one table.
type bars struct {
	name  string
	ours  bool
	rates [3]float64
}

type panel struct {
	title, unit string
	tables      []bars
}

func draw(out io.Writer, root string) error {
	cpu, err := onCPU(filepath.Join(root, cpuResults))
	if err != nil {
		return err
	}
	gpu, err := onGPU(filepath.Join(root, gpuResults), filepath.Join(root, gpuOthers))
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, svg([]panel{
		{"2 cores of a Xeon, 10⁷ keys and values of 64 bits", "million/s", cpu},
		{"NVIDIA H200, 32 bits, load 0.8: 5·10⁷ keys, others 10⁸", "billion/s", gpu},
	}))
	return err
}

// onCPU reads the results of peers/maps that were measured on all cores.
func onCPU(name string) (tables []bars, err error) {
	var report struct {
		Rows []struct {
			Peer     string
			N, Cores int
			InsertNS float64 `json:"insert_ns"`
			HitNS    float64 `json:"hit_ns"`
			MissNS   float64 `json:"miss_ns"`
		}
	}
	if err := read(name, &report); err != nil {
		return nil, err
	}
	names := map[string]string{"weft linear": "weft linear", "builtin map": "Go map", "256 x map + RWMutex": "256 Go maps", "xsync v4": "xsync", "cockroachdb swiss": "swiss"}
	for _, peer := range []string{"weft linear", "builtin map", "256 x map + RWMutex", "xsync v4", "cockroachdb swiss"} {
		for _, r := range report.Rows {
			if r.Peer == peer && r.N == cpuKeys && r.Cores == cpuCores {
				tables = append(tables, bars{names[peer], len(tables) == 0, [3]float64{1e3 / r.InsertNS, 1e3 / r.HitNS, 1e3 / r.MissNS}})
			}
		}
	}
	if len(tables) != len(names) {
		return nil, fmt.Errorf("%s: %d of %d maps", name, len(tables), len(names))
	}
	return tables, nil
}

// other matches a row in the table of other people's tables, with its rates at load 0.8.
var other = regexp.MustCompile(`(?m)^\| (cuCollections|BGHT|SimpleGPUHashTable)([^|]*)\| [^|]* \| ([\d.]+) / ([\d.]+) / ([\d.]+) \|`)

// onGPU reads the results of weft-bench, and the rates of other people's tables.
func onGPU(name, notes string) (tables []bars, err error) {
	var report struct {
		Rows []struct {
			Structure, Op string
			KeyBits       int     `json:"key_bits"`
			ValueBits     int     `json:"value_bits"`
			OpsPerS       float64 `json:"ops_per_s"`
			Load          float64
		}
	}
	if err := read(name, &report); err != nil {
		return nil, err
	}
	for _, s := range []string{"linear", "cuckoo first fit", "horton"} {
		b := bars{name: "weft " + strings.TrimSuffix(s, " first fit"), ours: true}
		for _, r := range report.Rows {
			if r.Structure != s || r.KeyBits != gpuKeyWidth || r.ValueBits != gpuKeyWidth || r.Load != load {
				continue
			}
			for i, op := range []string{"insert", "get_hit", "get_miss"} {
				if r.Op == op {
					b.rates[i] = r.OpsPerS / 1e9
				}
			}
		}
		if b.rates[0] == 0 || b.rates[1] == 0 || b.rates[2] == 0 {
			return nil, fmt.Errorf("%s: no rates of %s", name, s)
		}
		tables = append(tables, b)
	}
	text, err := os.ReadFile(notes)
	if err != nil {
		return nil, err
	}
	for _, m := range other.FindAllStringSubmatch(string(text), -1) {
		b := bars{name: m[1]}
		switch {
		case strings.Contains(m[2], "linear"):
			b.name = "cuCollections linear"
		case strings.Contains(m[2], "double"):
			b.name = "cuCollections double"
		case strings.Contains(m[2], "bcht"):
			b.name = "BGHT cuckoo"
		}
		for i := range b.rates {
			if b.rates[i], err = strconv.ParseFloat(m[3+i], 64); err != nil {
				return nil, err
			}
		}
		tables = append(tables, b)
	}
	if len(tables) != 7 {
		return nil, fmt.Errorf("%s: %d tables", notes, len(tables))
	}
	return tables, nil
}

func read(name string, to any) error {
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Sizes in the image.
const (
	width, rowHeight  = 560, 26
	nameWidth, column = 190, 123
	longest           = 78 // length of the longest bar
)

// svg draws panels one below the other. A table is a row, and an operation is a column of bars.
func svg(panels []panel) string {
	var body strings.Builder
	y := 8
	for _, p := range panels {
		most := 0.0
		for _, t := range p.tables {
			for _, r := range t.rates {
				most = max(most, r)
			}
		}
		y += 22
		fmt.Fprintf(&body, `<text class="title" x="10" y="%d">%s</text>`+"\n", y, html.EscapeString(p.title))
		y += 26
		fmt.Fprintf(&body, `<text class="soft" x="10" y="%d">%s</text>`+"\n", y, p.unit)
		for i, op := range operations {
			fmt.Fprintf(&body, `<text class="soft" x="%d" y="%d">%s</text>`+"\n", nameWidth+i*column, y, op)
		}
		y += 8
		for _, t := range p.tables {
			class := "other"
			if t.ours {
				class = "ours"
			}
			fmt.Fprintf(&body, `<text class="name %s" x="%d" y="%d">%s</text>`+"\n", class, nameWidth-10, y+18, t.name)
			for i, r := range t.rates {
				x, long := nameWidth+i*column, r/most*longest
				fmt.Fprintf(&body, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"><title>%s, %s: %.1f %s</title></rect>`, class, x, y+3, long, rowHeight-7, t.name, operations[i], r, p.unit)
				fmt.Fprintf(&body, `<text class="value" x="%.1f" y="%d">%.1f</text>`+"\n", float64(x)+long+5, y+18, r)
			}
			y += rowHeight
		}
		y += 6
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">
<title>Rates of weft beside other maps</title>
<desc>Rates of inserts, hits (lookups of present keys) and misses (of absent keys), on a CPU and on a GPU. Drawn by lab/peers/chart from %[3]s, %[4]s and %[5]s.</desc>
<style>
svg { font: 16px system-ui, sans-serif }
text { fill: #1f2328 } .soft { fill: #59636e } .title { font-weight: 600 } .name { text-anchor: end } .value { font-size: 15px }
text.ours { font-weight: 600 } rect.ours { fill: #0969da } rect.other { fill: #afb8c1 } .ground { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } rect.ours { fill: #4493f8 } rect.other { fill: #656c76 } .ground { fill: #0d1117 }
}
</style>
<rect class="ground" width="%[1]d" height="%[2]d"/>
%[6]s</svg>
`, width, y, cpuResults, gpuResults, gpuOthers, body.String())
}
