package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// The committed chart is the one that the results produce.
func TestChart(t *testing.T) {
	var want bytes.Buffer
	if err := draw(&want, "../.."); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/rates.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/rates.svg is another one: GOWORK=off go run ./peers/chart >../docs/rates.svg")
	}
	tokens := xml.NewDecoder(&want)
	for err == nil {
		_, err = tokens.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if n := strings.Count(string(got), "<rect class=\"ours\""); n != 3*4 {
		t.Errorf("%d bars of weft, want 12", n)
	}
}

// Results that are missing, or have other tables, are errors.
func TestMissing(t *testing.T) {
	if err := draw(io.Discard, t.TempDir()); err == nil {
		t.Error("no results")
	}
	empty := t.TempDir() + "/empty"
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := onCPU(empty); err == nil {
		t.Error("no maps")
	}
	if _, err := onGPU(empty, empty); err == nil {
		t.Error("no tables")
	}
	if _, err := onGPU("../../"+gpuResults, empty); err == nil {
		t.Error("no other tables")
	}
}
