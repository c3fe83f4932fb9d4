package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
)

func host() auto.Entry {
	return auto.Entry{
		Choice:     "cpu",
		Properties: device.Properties{Kind: device.CPU, Name: "A CPU", Units: 2, L2: 32 << 20},
		Memory:     device.Memory{Free: 20 << 30, Total: 24 << 30},
	}
}

func gpu(choice string, free uint64, err error) auto.Entry {
	e := auto.Entry{
		Choice:     choice,
		Properties: device.Properties{Kind: device.CUDA, Name: "A GPU", Units: 132, Arch: 90, L2: 50 << 20, Driver: "13.0"},
		Memory:     device.Memory{Free: free, Total: 140 << 30},
		Err:        err,
	}
	if err != nil {
		e.Memory = device.Memory{}
	}
	return e
}

func TestChosen(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name    string
		entries []auto.Entry
		want    int
	}{
		{"nothing", nil, -1},
		{"CPU only", []auto.Entry{host()}, 0},
		{"no GPU that works", []auto.Entry{host(), gpu("cuda:0", 0, broken)}, 0},
		{"a GPU with less memory than the CPU", []auto.Entry{host(), gpu("cuda:0", 1<<30, nil)}, 1},
		{"the emptier GPU", []auto.Entry{host(), gpu("cuda:0", 1<<30, nil), gpu("cuda:1", 2<<30, nil)}, 2},
		{"the first of equals", []auto.Entry{host(), gpu("cuda:0", 0, broken), gpu("cuda:1", 2<<30, nil), gpu("cuda:2", 2<<30, nil)}, 2},
		{"no device that works", []auto.Entry{gpu("cuda:0", 0, broken)}, -1},
	} {
		if got := chosen(tt.entries); got != tt.want {
			t.Errorf("%s: chose %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestDevicesTable(t *testing.T) {
	var out bytes.Buffer
	entries := []auto.Entry{host(), gpu("cuda:0", 100<<30, nil), gpu("cuda:1", 0, errors.New("it is on fire"))}
	if err := runDevices(&app{stdout: &out}, entries); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{
		{"cpu", "A", "CPU", "2", "-", "32", "MiB", "20", "GiB", "24", "GiB"},
		{"*", "cuda:0", "A", "GPU", "132", "90", "50", "MiB", "13.0", "100", "GiB", "140", "GiB"},
		{"cuda:1", "A", "GPU", "132", "90", "50", "MiB", "13.0", "-", "-"},
		{"cuda:1", "cannot", "be", "used:", "it", "is", "on", "fire"},
	} {
		if !hasLine(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}

func hasLine(text string, fields []string) bool {
	for line := range strings.Lines(text) {
		if strings.Join(strings.Fields(line), " ") == strings.Join(fields, " ") {
			return true
		}
	}
	return false
}

func TestDevicesJSON(t *testing.T) {
	var out bytes.Buffer
	entries := []auto.Entry{host(), gpu("cuda:0", 0, errors.New("it is on fire"))}
	if err := runDevices(&app{stdout: &out, json: true}, entries); err != nil {
		t.Fatal(err)
	}
	var got []jsonDevice
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []jsonDevice{
		{Device: "cpu", Auto: true, Kind: device.CPU, Name: "A CPU", Units: 2, L2: 32 << 20, MemoryFree: 20 << 30, MemoryTotal: 24 << 30},
		{Device: "cuda:0", Kind: device.CUDA, Name: "A GPU", Units: 132, Arch: 90, L2: 50 << 20, Driver: "13.0", Error: "it is on fire"},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The CPU is always listed.
func TestDevices(t *testing.T) {
	stdout, stderr, status := runWeft(t, "", "devices")
	if status != exitOK || !strings.Contains(stdout, " cpu ") || strings.Count(stdout, "*") != 1 {
		t.Errorf("exit status %d, prints %q, says %q", status, stdout, stderr)
	}
}
