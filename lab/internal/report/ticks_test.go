package report

import (
	"strings"
	"testing"
)

// Every logarithmic axis has at least two labels, none of them outside of the data.
func TestLogTicks(t *testing.T) {
	for _, tt := range []struct {
		lo, hi float64
		want   string
	}{
		{1, 1e6, "1 10 100 1 k 10 k 100 k 1 M"},
		{3e7, 1.2e9, "50 M 100 M 200 M 500 M 1 G"},
		{2.1e7, 4.8e7, "30 M 40 M"},
		{4.5e7, 8e7, "50 M 60 M 70 M 80 M"},
		{3.1e7, 3.3e7, "31 M 31.5 M 32 M 32.5 M 33 M"},
	} {
		var labels []string
		for _, tick := range logTicks(tt.lo, tt.hi) {
			if tick.Value < tt.lo*.999 || tick.Value > tt.hi*1.001 {
				t.Errorf("%g to %g: a tick at %g", tt.lo, tt.hi, tick.Value)
			}
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != tt.want {
			t.Errorf("%g to %g: %q, want %q", tt.lo, tt.hi, got, tt.want)
		}
	}
}
