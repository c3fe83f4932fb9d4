package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Groups that exceed --memory go through the temporary file, with the same result.
func TestGroupsBeyondMemory(t *testing.T) {
	const n = 300_000
	var text strings.Builder
	text.WriteString("key,n\n")
	for _, copies := range []int{n, n / 3} {
		for i := range copies {
			text.WriteString("a key of some length " + strconv.Itoa(i) + "," + strconv.Itoa(i%1000) + "\n")
		}
	}
	file := tableFile(t, "many.csv", text.String())
	run := func(args ...string) string {
		t.Helper()
		out, errs, status := runWeft(t, "", append(args, file)...)
		if status != exitOK {
			t.Fatalf("%v: status %d, %s", args, status, errs)
		}
		return out
	}
	lines := func(out string) []string {
		all := strings.Split(out, "\n")
		slices.Sort(all)
		return all
	}
	group := []string{"group", "--by", "key", "--agg", "count,sum:n,last:n", "--csv"}
	little := append(slices.Clone(little), "--temp-dir", "/var/tmp")
	if want, got := run(group...), run(append(group, little...)...); !slices.Equal(lines(got),
		lines(want)) {
		t.Error("other groups with less memory")
	} else if got == want {
		t.Error("nothing went to the temporary file")
	}
	for _, more := range [][]string{{"--sort", "key:desc"}, {"--sort", "count:desc,key", "--top",
		"5"}} {
		args := append(slices.Clone(group), more...)
		if want, got := run(args...), run(append(args, little...)...); got != want {
			t.Errorf("%v: other groups with less memory", more)
		}
	}
	if out := run(append([]string{"distinct", "--by", "key", "--count"},
		little...)...); out != strconv.Itoa(n)+"\n" {
		t.Errorf("%s distinct keys", out)
	}
	if out := run(append([]string{"distinct", "--by", "key", "--top", "3", "--csv"},
		little...)...); strings.Count(out, "\n") != 4 {
		t.Errorf("the first 3 are %s", out)
	}
}

// little is the minimum of --memory.
var little = []string{"--memory", "16MiB"}

// For all verbs, rows that exceed --memory are sorted in the temporary file. Their order is the
// same as without a limit, and equal rows keep their order. A small --top needs no file.
func TestSortBeyondMemory(t *testing.T) {
	var left, right strings.Builder
	left.WriteString("id,name,amount\n")
	right.WriteString("id,city\n")
	const n = 30_000
	for i := range n {
		k := i * 7919 % n
		name := []string{fmt.Sprintf("%d.50", k), fmt.Sprintf("name %d", k), "", "nan", "-1e99",
			"-7"}[i%6]
		fmt.Fprintf(&left, "%d,%s,%d\n", k, name, k%100)
		fmt.Fprintf(&right, "%d,city %d\n", i, i%3)
	}
	a, b := tableFile(t, "left.csv", left.String()), tableFile(t, "right.csv", right.String())
	for _, verb := range [][]string{
		{"group", "--by", "id,name", "--agg", "sum:amount", a},
		{"distinct", a},
		{"join", "--on", "id", a, b},
	} {
		for _, order := range []string{"name:desc,id", "name,id:desc", "amount,id"} {
			if verb[0] == "group" {
				order = strings.Replace(order, "amount", "sum:amount", 1)
			}
			for _, top := range []string{"0", "10", "29000"} {
				args := slices.Concat(verb, []string{"--csv", "--sort", order, "--top", top})
				want, _, status := runWeft(t, "", append(slices.Clone(args), "--memory", "0")...)
				if status != exitOK || strings.Count(want, "\n") < 10 {
					t.Fatalf("%v: status %d: %.200s", args, status, want)
				}
				got, errs, status := runWeft(t, "", append(args, little...)...)
				if status != exitOK || got != want {
					t.Errorf("%v: status %d, %s: other rows with less memory", args, status, errs)
				}
				spilled := strings.Contains(errs, " in the temporary file; ")
				if !spilled && top != "10" || spilled && top == "10" && verb[0] == "join" {
					t.Errorf("%v: %s", args, errs)
				}
			}
		}
	}
}

// With --json, spilled_bytes is the number of bytes written to the file.
func TestSpilledBytes(t *testing.T) {
	file := tableFile(t, "many.csv", "k\n"+manyLines(400_000))
	for _, args := range [][]string{{"group", "--by", "k"}, {"distinct", "--count"}, {"distinct",
		"--sort", "k"}, {"join", "--on", "k", "--sort", "k", file}} {
		for _, limited := range []bool{false, true} {
			args := append(slices.Clone(args), file, "--json")
			if limited {
				args = append(args, little...)
			}
			out, errs, status := runWeft(t, "", args...)
			var s struct {
				Spilled *int64 `json:"spilled_bytes"`
			}
			err := json.Unmarshal([]byte(out), &s)
			if err != nil || status != exitOK || s.Spilled == nil || *s.Spilled > 0 != limited {
				t.Errorf("%v: status %d, %v, %v spilled, %s", args, status, err, s.Spilled, errs)
			}
			if said := strings.Contains(errs, " in the temporary file; "); said != limited {
				t.Errorf("%v: %s", args, errs)
			}
		}
	}
}

// For all verbs, invalid limits and directories are usage errors before anything is read.
func TestMemoryUsage(t *testing.T) {
	file := tableFile(t, "few.csv", "k\n1\n")
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	type test struct{ flag, value, want string }
	tests := []test{
		{"--memory", "1MiB", "--memory 1048576: want at least 16777216 bytes, or 0 for no limit"},
		{"--memory", "-1", "--memory"},
		{"--temp-dir", "/no/where", "--temp-dir /no/where: "},
		{"--temp-dir", file, "--temp-dir " + file + ": "},
	}
	if os.Getuid() > 0 && runtime.GOOS != "windows" {
		tests = append(tests, test{"--temp-dir", closed, "permission denied"})
	}
	if text, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(text), " /dev/shm tmpfs") {
		tests = append(tests, test{"--temp-dir", "/dev/shm", "--temp-dir /dev/shm is in memory, " +
			"so a file there saves none; name a directory on a disk, or raise --memory"})
	}
	for _, verb := range [][]string{{"group", "--by", "k"}, {"distinct"}, {"join", "--on", "k",
		file}} {
		for _, x := range tests {
			args := append(slices.Clone(verb), file, x.flag, x.value)
			_, errs, status := runWeft(t, "", args...)
			if status != exitUsage || !strings.Contains(errs, x.want) {
				t.Errorf("%v: status %d, %s", args, status, errs)
			}
		}
	}
}

// Errors of packages mention flags, not options.
func TestFlagErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	t.Setenv("TMPDIR", dir)
	file := tableFile(t, "many.csv", "k\n"+manyLines(400_000))
	_, errs, status := runWeft(t, "", append([]string{"distinct", file}, little...)...)
	if runtime.GOOS != "windows" && (status != exitFailed || !strings.Contains(errs, dir) ||
		!strings.Contains(errs, "; set --temp-dir to another directory")) {
		t.Errorf("status %d, %s", status, errs)
	}
}
