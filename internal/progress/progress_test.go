package progress

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// aged makes a job older, so that its line is drawn.
func aged(b *Bar, by time.Duration) *Bar {
	b.start, b.drawn = b.start.Add(-by), b.drawn.Add(-by)
	return b
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := Bytes(&out, true, "counting", 1000)
	b.Add(100)
	if out.Len() > 0 {
		t.Errorf("drawn at once: %q", &out)
	}
	aged(b, 10*time.Second).Add(400)
	if s := out.String(); s != "\rcounting 50%, 500 B/1 kB, 50 B/s, 10s left" {
		t.Errorf("half done is drawn as %q", s)
	}
	b.Add(100)
	if n := strings.Count(out.String(), "\r"); n != 1 {
		t.Errorf("drawn %d times at once", n)
	}
	aged(b, 10*time.Second).Add(5000) // the file has grown
	drawn := out.String()
	want := fmt.Sprintf("\r%-42s", "counting 5.6 kB, 280 B/s, 20s")
	if !strings.HasSuffix(drawn, want) {
		t.Errorf("drawn as %q, want %q at the end", drawn, want)
	}
	b.Close()
	b.Close()
	if s := strings.TrimPrefix(out.String(), drawn); s != "\r"+strings.Repeat(" ", 29)+"\r" {
		t.Errorf("removed by %q", s)
	}
}

// The bytes in a temporary file are at the end of the line.
func TestSpilled(t *testing.T) {
	var out bytes.Buffer
	b := aged(Bytes(&out, true, "reading", 1000), 10*time.Second)
	b.Spilled(1_234_000)
	if out.Len() > 0 {
		t.Errorf("drawn by itself: %q", &out)
	}
	b.Add(500)
	if s := out.String(); s != "\rreading 50%, 500 B/1 kB, 50 B/s, 10s left, 1.23 MB spilled" {
		t.Errorf("drawn as %q", s)
	}
	(*Bar)(nil).Spilled(1)
}

func TestUnknownTotal(t *testing.T) {
	for _, total := range []int64{-1, 0} {
		var out bytes.Buffer
		b := aged(Bytes(&out, true, "counting", total), 2*minTime)
		b.Add(12_000)
		if s := out.String(); s != "\rcounting 12 kB, 6 kB/s, 2s" {
			t.Errorf("12000 bytes are drawn as %q", s)
		}
		b.Close()
	}
}

func TestAmount(t *testing.T) {
	b := Bytes(io.Discard, true, "", 0)
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 1234: "1.23 kB", 999_499: "999 kB", 999_500: "1 MB",
		56_789_000: "56.8 MB", math.MaxInt64: "9.22 EB",
	} {
		if got := b.amount(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A line never wraps, whatever its text, and Close removes all of it.
func TestWidth(t *testing.T) {
	var out bytes.Buffer
	b := aged(Count(&out, true, strings.Repeat("x", 100), math.MaxInt64), 2*minTime)
	b.Add(1)
	b.Close()
	if s := out.String(); len(s) != 1+maxColumns+1+maxColumns+1 {
		t.Errorf("%d bytes are written: %q", len(s), s)
	}
}

func TestShow(t *testing.T) {
	var out bytes.Buffer
	Show(&out, true, "checking").Close()
	if s := out.String(); s != "\rchecking\r        \r" {
		t.Errorf("drawn and removed by %q", s)
	}
	if Show(&out, false, "checking").Close(); Show(&out, false, "checking") != nil {
		t.Error("drawn without a terminal")
	}
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
	aged(b, 2*minTime)
	b.Add(12_000)
	if s := out.String(); !strings.Contains(s, "12000/20000") {
		t.Errorf("12000 things of 20000 are drawn as %q", s)
	}
	b.Close()
	if Count(&out, false, "counting", 1) != nil {
		t.Error("drawn without a terminal")
	}
}

// The rate is the mean over the whole job, even in the first line drawn.
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
	if took < minTime || m == nil {
		t.Fatalf("drawn after %v: %q", took, &out)
	}
	if rate, err := strconv.ParseFloat(m[1], 64); err != nil || rate > 1.5*most {
		t.Errorf("%v MB/s are drawn, of %v at most: %q", rate, most, &out)
	}
	b.Close()
}
