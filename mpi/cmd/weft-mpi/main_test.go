package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// weftMPI runs a command line.
func weftMPI(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs})
	return out.String(), errs.String(), status
}

// The verb plan prints the figures of the model, as a table and as JSON.
func TestPlan(t *testing.T) {
	stdout, stderr, status := weftMPI(
		t,
		"plan",
		"--keys",
		"1e12",
		"--bytes",
		"16",
		"--gpu",
		"h200",
		"--nic",
		"400",
	)
	if status != exitOK ||
		!strings.Contains(stdout, ": 18.8 TB on 157 × h200 in 20 nodes, 120 GB each\n") ||
		stderr != "" {
		t.Errorf("exit status %d, prints %s, says %s", status, stdout, stderr)
	}
	if n := strings.Count(stdout, "\n"); n != 12 {
		t.Errorf("%d lines", n)
	}
	stdout, _, _ = weftMPI(t, "plan", "--ranks", "2", "--replicas", "3")
	if !strings.Contains(stdout, "in 3 copies") ||
		!strings.Contains(stdout, ", and they have 120 GB\n") {
		t.Error(stdout)
	}
	stdout, _, status = weftMPI(t, "plan", "--json", "--batch", "1e5,1e6")
	var got planOutput
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK ||
		got.Ranks != 157 ||
		len(got.Lookups) != 2 ||
		got.Lookups[1].Keys != 1e6 {
		t.Errorf("exit status %d, %v, %+v", status, err, got)
	}
}

// Impossible numbers and unknown verbs are usage errors.
func TestUsage(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"plan --load 3", "plan --load 3: want 0.01 to 1\n"}, {"plan --keys -1", "plan --keys -1: "}, {"plan --bytes NaN", "plan --bytes NaN: "},
		{"plan --batch 0", "plan --batch 0: "}, {"plan --gpu tpu", `plan --gpu "tpu": want h200 or cpu`}, {"plan --nic x", "invalid argument"},
		{"plan --try --ranks 513", "plan --try: 513 ranks; want at most 512 "}, {"group --by x --local 513 main.go", "group --local 513: want 1 to 512 ranks"},
		{"plan more", "plan more: takes no arguments"}, {"bench", "bench: no such command; want distinct, group or plan\n"},
	} {
		stdout, stderr, status := weftMPI(t, strings.Fields(tt.args)...)
		if status != exitUsage || stdout != "" ||
			!strings.HasPrefix(stderr, "weft-mpi: "+tt.stderr) &&
				!strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: exit status %d, prints %s, says %s", tt.args, status, stdout, stderr)
		}
	}
}

// The exchanges of ranks in this process agree with the model.
func TestPlanTry(t *testing.T) {
	stdout, stderr, status := weftMPI(
		t,
		"plan",
		"--ranks",
		"168",
		"--batch",
		"2e4,1e9",
		"--try",
		"--json",
	)
	var got planOutput
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK ||
		len(got.Tried) != 1 {
		t.Fatalf("exit status %d, %v, prints %s, says %s", status, err, stdout, stderr)
	}
	tried, model := got.Tried[0], got.Lookups[0]
	if tried.Smallest <= 0 || tried.Smallest > model.Message || tried.Skew < 1 ||
		tried.Skew > 1+1.5*(model.Skew-1) {
		t.Errorf("tried %+v, model %+v", tried, model)
	}
	stdout, _, _ = weftMPI(t, "plan", "--ranks", "4", "--batch", "1e4", "--try")
	if !strings.Contains(stdout, "10 k keys a rank: smallest message ") {
		t.Error(stdout)
	}
}
