package progress

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := Bytes(&out, true, "counting", 1000)
	b.Add(100)
	if out.Len() > 0 {
		t.Errorf("drawn at once: %q", &out)
	}
	b.start = b.start.Add(-2 * after)
	time.Sleep(150 * time.Millisecond) // it is drawn ten times a second at most
	b.Add(400)
	if s := out.String(); !strings.Contains(s, "counting") || !strings.Contains(s, "50%") {
		t.Errorf("half done is drawn as %q", s)
	}
	time.Sleep(150 * time.Millisecond)
	b.Add(5000) // the file has grown
	b.Close()
	b.Close()
}

func TestUnknownTotal(t *testing.T) {
	var out bytes.Buffer
	b := Bytes(&out, true, "counting", -1)
	b.start = b.start.Add(-2 * after)
	b.Add(12_000)
	if s := out.String(); !strings.Contains(s, "12 kB") {
		t.Errorf("12000 bytes are drawn as %q", s)
	}
	b.Close()
}

func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	b := Bytes(&out, false, "counting", 10)
	b.Add(10)
	b.Close()
	if b != nil || out.Len() > 0 {
		t.Errorf("drawn without a terminal: %q", &out)
	}
}

func TestCount(t *testing.T) {
	var out bytes.Buffer
	b := Count(&out, true, "counting", 20_000)
	b.start = b.start.Add(-2 * after)
	b.Add(12_000)
	if s := out.String(); !strings.Contains(s, "12000/20000") {
		t.Errorf("12000 things of 20000 are drawn as %q", s)
	}
	b.Close()
	if Count(&out, false, "counting", 1) != nil {
		t.Error("drawn without a terminal")
	}
}

// The rate is that of the whole job, also in the first line that is drawn.
func TestRate(t *testing.T) {
	var out bytes.Buffer
	b := Bytes(&out, true, "reading", 1<<30)
	begin := time.Now()
	for out.Len() == 0 {
		time.Sleep(20 * time.Millisecond)
		b.Add(1_000_000)
	}
	took := time.Since(begin)
	most := 1e3 / 20. // MB/s: a megabyte each 20 ms at least
	m := regexp.MustCompile(`([0-9.]+) MB/s`).FindStringSubmatch(out.String())
	if took < after || m == nil {
		t.Fatalf("drawn after %v: %q", took, &out)
	}
	if rate, err := strconv.ParseFloat(m[1], 64); err != nil || rate > 1.5*most {
		t.Errorf("%v MB/s are drawn, of %v at most: %q", rate, most, &out)
	}
	b.Close()
}
