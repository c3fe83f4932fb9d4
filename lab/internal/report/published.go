package report

import (
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
)

func published(res *experiment.Result) []fact {
	list := make([]fact, len(res.Published))
	for i, p := range res.Published {
		list[i] = fact{p.What, digits(p.Value) + " " + p.Unit}
		if p.Unit == "op/s" {
			list[i].Value = rate(p.Value) + "/s"
		}
	}
	return list
}

// publishedLine returns a line of text with all published figures, or "".
func publishedLine(res *experiment.Result) string {
	var parts []string
	for _, f := range published(res) {
		parts = append(parts, f.Name+" "+f.Value)
	}
	if parts == nil {
		return ""
	}
	return "published: " + strings.Join(parts, ", ")
}
