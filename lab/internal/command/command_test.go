package command

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 3}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}

// A report is JSON with the same members as earlier ones.
func TestReports(t *testing.T) {
	type report struct {
		Head
		Rows []int `json:"rows"`
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, report{NewHead(5), []int{1}}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 4 || got["runs"] != 5.0 || got["go"] == "" {
		t.Errorf("%v: %s", err, out.String())
	}
	if date, err := time.Parse(time.RFC3339, got["date"].(string)); err != nil || time.Since(date) > time.Hour {
		t.Errorf("made on %v: %v", got["date"], err)
	}
}
