package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// All maps agree, and the output has a row for each operation.
func TestOrdered(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "20000", "-runs", "1", "-json"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Rows) != len(operations) {
		t.Fatalf("%d rows of %d, %v", len(r.Rows), len(operations), err)
	}
	out.Reset()
	if err := run([]string{"-n", "1000", "-runs", "1"}, &out, &out); err != nil || strings.Count(out.String(), " x") != ours*len(operations) {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, args := range [][]string{{"-n", "0"}, {"-runs", "0"}, {"-nonsense"}} {
		if err := run(args, &out, &out); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// forgetful loses its first key.
type forgetful struct{ tidwallTree }

func (f *forgetful) load(keys, vals []uint64, sorted bool) (uint64, error) {
	return f.tidwallTree.load(keys[1:], vals[1:], sorted)
}

func TestWrongAnswersAreErrors(t *testing.T) {
	defer func(was []peer) { maps = was }(maps)
	maps = append(maps[:1:1], peer{"forgetful", func() (tree, error) { return new(forgetful), nil }})
	if _, err := measure(100, 1, 1); err == nil || !strings.Contains(err.Error(), "forgetful: load, unsorted: the answers add up to 99") {
		t.Errorf("error %v", err)
	}
}
