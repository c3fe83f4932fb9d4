//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

type numbers = linear.Map[uint64, uint64]

// openNumbers calls f with the map of a store, which it opens and closes.
func openNumbers(t *testing.T, dir string, f func(m *numbers)) {
	t.Helper()
	open := opened(func(dev device.Device) (*numbers,
		error) {
		return linear.New[uint64, uint64](dev, nil)
	})
	open(t, dir, func(m durable.Structure) error {
		f(m.(*numbers))
		return nil
	})
}

// putNumbers puts the keys lo to hi-1 as one change.
func putNumbers(t *testing.T, m *numbers, lo, hi uint64) {
	t.Helper()
	var keys []uint64
	for k := lo; k < hi; k++ {
		keys = append(keys, k)
	}
	must(t, failure(m.Put(t.Context(), keys, keys)))
}

// numbersStore creates a store with n pairs in its checkpoint, and one more in its log.
func numbersStore(t *testing.T, n uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	openNumbers(t, dir, func(m *numbers) {
		putNumbers(t, m, 0, n)
		must(t, durable.Checkpoint(t.Context(), m))
		putNumbers(t, m, n, n+1)
	})
	return dir
}

// fileOf returns the newest file of a store that begins with prefix.
func fileOf(t *testing.T, dir, prefix string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no file ", prefix)
	}
	return files[len(files)-1]
}

// flip changes a bit of a file of a store.
func flip(t *testing.T, dir, prefix string, at int) string {
	t.Helper()
	change(t, fileOf(t, dir, prefix), func(content []byte) { content[at] ^= 1 })
	return dir
}

func without(t *testing.T, dir, prefix string) string {
	t.Helper()
	must(t, os.Remove(fileOf(t, dir, prefix)))
	return dir
}

// withManifest changes the manifest of a store and its checksum.
func withManifest(t *testing.T, dir, from, to string) string {
	t.Helper()
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	must(t, err)
	text = bytes.Replace(text[:bytes.LastIndex(text, []byte("crc32c "))], []byte(from), []byte(to),
		1)
	if !bytes.Contains(text, []byte(to)) {
		t.Fatalf("no %s in %s", from, text)
	}
	sum := crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))
	must(t, os.WriteFile(path, fmt.Appendf(text, "crc32c %08x\n", sum), 0o600))
	return dir
}

// torn returns a store in the state in which a process leaves it that is killed amid a change of
// two frames, after a change of one.
func torn(t *testing.T) string {
	t.Helper()
	live, dir := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "torn")
	openNumbers(t, live, func(m *numbers) {
		putNumbers(t, m, 0, 1)
		putNumbers(t, m, 0, 70_000)
		must(t, os.CopyFS(dir, os.DirFS(live)))
	})
	change(t, fileOf(t, dir, "log-"), func(content []byte) {
		end := len(bytes.TrimRight(content, "\x00"))
		clear(content[end-100 : end])
	})
	return dir
}

// foreign returns a store with a segment of another store after its own.
func foreign(t *testing.T) string {
	t.Helper()
	dir, other := numbersStore(t, 9), numbersStore(t, 9)
	openNumbers(t, other, func(*numbers) {})
	path := fileOf(t, other, "log-")
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600))
	return dir
}

// The exit status of a check says what it finds, and the errors of all verbs what helps.
func TestStoreDamage(t *testing.T) {
	const helps, restore = "weft store check --repair", "; restore a backup"
	const later = "; a later version of weft"
	for _, tt := range []struct {
		name, dir      string
		check, repair  int    // exit statuses
		says           string // part of the error of check
		hint           string
		lost, lostRows int
		second         int // exit status of a check after the repair
	}{
		{"manifest", flip(t, numbersStore(t, 9), manifestName, 100), exitCorrupt, exitCorrupt,
			"corrupt: MANIFEST is damaged", restore, 0, 0, exitCorrupt},
		{"no manifest", without(t, numbersStore(t, 9), manifestName), exitCorrupt, exitCorrupt,
			"corrupt: MANIFEST is missing", restore, 0, 0, exitCorrupt},
		{"checkpoint", flip(t, numbersStore(t, 9), "checkpoint-", 60), exitCorrupt, exitRepaired,
			"checkpoint-", helps, 0, 9, exitOK},
		{"no checkpoint", without(t, numbersStore(t, 9), "checkpoint-"), exitCorrupt, exitRepaired,
			"checkpoint-0000000000000001 is missing", helps, 0, 9, exitOK},
		{"log", flip(t, numbersStore(t, 9), "log-", 80), exitCorrupt, exitRepaired,
			"frame 2 is missing or damaged; 1 frames from there on had been on the disk; restore",
			helps, 1, 0, exitOK},
		{"no log", without(t, numbersStore(t, 9), "log-"), exitCorrupt, exitCorrupt,
			"log-0000000000000002 is missing", helps, 0, 0, exitCorrupt},
		{"later", withManifest(t, numbersStore(t, 9), "weft store 1", "weft store 2"), exitUnknown,
			exitUnknown, `the store has the format "weft store 2"`, later, 0, 0, exitUnknown},
		{"other type", withManifest(t, numbersStore(t, 9), `"AHVA`, `"AHhA`), exitUnknown,
			exitUnknown, "does not know the type unknown", later, 0, 0, exitUnknown},
		{"of another store", foreign(t), exitUnknown, exitUnknown,
			"belongs to another store: remove it", "", 0, 0, exitUnknown},
		{"torn", torn(t), exitOK, exitOK, "", "", 0, 0, exitOK},
	} {
		stdout, stderr, status := weftStore(t.Context(), "check", tt.dir)
		if status != tt.check || (stdout == "") != (status == exitUnknown) ||
			!strings.Contains(stderr, tt.says) || !strings.Contains(stderr, tt.hint) {
			t.Errorf("%s: check: exit status %d, prints %q and says %q", tt.name, status, stdout,
				stderr)
		}
		if status != exitOK {
			wantOneLine(t, []string{"store", "check", tt.name}, stderr,
				"weft: store check "+tt.dir+": ")
			sameFailure(t, tt.name, tt.dir, tt.says[:min(len(tt.says), 20)])
		}
		stdout, stderr, status = weftStore(t.Context(), "check", "--repair", "--json", tt.dir)
		if status != tt.repair {
			t.Errorf("%s: repair: exit status %d, prints %q and says %q", tt.name, status, stdout,
				stderr)
		}
		if status != exitUnknown {
			got := decodeCheck(t, stdout)
			if want := []string{exitOK: "ok", exitRepaired: "repaired",
				exitCorrupt: "corrupt"}[status]; got.Verdict != want || got.LostFrames != tt.lost ||
				got.LostRows != tt.lostRows ||
				(got.Damage == "") != (status != exitRepaired) ||
				(got.Error == "") != (status != exitCorrupt) {
				t.Errorf("%s: repair prints %s", tt.name, stdout)
			}
		}
		if status == exitCorrupt {
			wantOneLine(t, nil, stderr, restore)
		}
		if stdout, _, status := weftStore(t.Context(), "check", tt.dir); status != tt.second {
			t.Errorf("%s: second check: exit status %d, prints %s", tt.name, status, stdout)
		}
	}
}

// sameFailure requires that dump, compact and backup print nothing but an error.
func sameFailure(t *testing.T, name, dir, says string) {
	t.Helper()
	for _, args := range [][]string{{"dump", dir}, {"compact", dir},
		{"backup", dir, filepath.Join(t.TempDir(), "backup")}} {
		stdout, stderr, status := weftStore(t.Context(), args...)
		// A backup copies checkpoints without reading them, and all types.
		if args[0] == "backup" && status == exitOK &&
			(name == "checkpoint" || name == "other type") {
			continue
		}
		if status != exitFailed || stdout != "" {
			t.Errorf("%s: %q: exit status %d, prints %q", name, args, status, stdout)
		}
		if args[0] != "backup" {
			wantOneLine(t, args, stderr, says)
		}
	}
}

// Check reports changes that had not returned, and what a repair has dropped.
func TestStoreCheckText(t *testing.T) {
	dir := torn(t)
	stdout, _, _ := weftStore(t.Context(), "check", dir)
	if want := dir + ": ok\na map of uint64 and uint64\n1 row\n" +
		"0 rows in the checkpoint, 1 change replayed from 56 B of the log\n" +
		"1 frame ignored, of incomplete changes\n"; stdout != want {
		t.Errorf("prints %q, want %q", stdout, want)
	}
	dir = flip(t, numbersStore(t, 9), "log-", 80)
	stdout, stderr, _ := weftStore(t.Context(), "check", "--repair", dir)
	const lost = "1 frame of the log and 0 rows of the checkpoint were dropped"
	if !strings.Contains(stdout, "\n9 rows\n") ||
		!strings.Contains(stdout, "\n"+lost+": corrupt: log-") ||
		strings.Contains(stdout, "Options") ||
		stderr != "weft: store check --repair "+dir+": repaired: "+lost+"\n" {
		t.Errorf("prints %q and says %q", stdout, stderr)
	}
}

// Info describes a store in any state.
func TestStoreInfo(t *testing.T) {
	dir := numbersStore(t, 9)
	stdout, stderr, status := weftStore(t.Context(), "info", dir)
	for _, line := range []string{"folder " + dir, "holds a map of uint64 and uint64",
		"size 308 B (308 bytes)", "checkpoint checkpoint-0000000000000001, 188 B, 9 rows",
		"log log-0000000000000002, 120 B"} {
		if !hasLine(stdout, strings.Fields(line)) || status != exitOK || stderr != "" {
			t.Errorf("exit status %d, says %q, no line %q in\n%s", status, stderr, line, stdout)
		}
	}
	stdout, _, _ = weftStore(t.Context(), "info", "--json", dir)
	var got storeInfo
	decode(t, stdout, &got)
	if got.Kind != "map" || got.Key != "uint64" || got.Value != "uint64" || !got.Ordered ||
		got.CheckpointRows != 9 || got.Bytes != 308 ||
		got.Checkpoint == nil || got.Checkpoint.Bytes != 188 || len(got.Log) != 1 ||
		got.Log[0] != (storeFile{"log-0000000000000002", 120}) {
		t.Errorf("prints %s", stdout)
	}
	for _, prefix := range []string{"log-", "checkpoint-"} {
		dir := without(t, numbersStore(t, 9), prefix)
		stdout, stderr, status := weftStore(t.Context(), "info", "--json", dir)
		var got storeInfo
		decode(t, stdout, &got)
		if status != exitFailed || got.Holds == "" || !strings.Contains(got.Error, prefix) {
			t.Errorf("without %s: exit status %d, prints %s", prefix, status, stdout)
		}
		wantOneLine(t, nil, stderr, prefix)
	}
}

// While a program has a store open, info and backup work, and all other verbs fail.
func TestStoreOpen(t *testing.T) {
	dir, backup := numbersStore(t, 9), filepath.Join(t.TempDir(), "backup")
	openNumbers(t, dir, func(m *numbers) {
		putNumbers(t, m, 20, 30)
		for _, tt := range []struct {
			args   []string
			status int
			says   string
		}{
			{[]string{"info", dir}, exitOK, ""},
			{[]string{"backup", dir, backup}, exitOK, ""},
			{[]string{"check", dir}, exitUnknown,
				"; weft store backup copies it meanwhile, and the copy can be read\n"},
			{[]string{"dump", dir}, exitFailed,
				"; weft store backup copies it meanwhile, and the copy can be read\n"},
			{[]string{"check", "--repair", dir}, exitUnknown, "; end that process first\n"},
			{[]string{"compact", dir}, exitFailed, "; end that process first\n"},
		} {
			stdout, stderr, status := weftStore(t.Context(), tt.args...)
			say := "weft: store " + strings.Join(tt.args, " ") +
				": locked: open in another process" + tt.says
			if status != tt.status || (stdout == "") == (status == exitOK) || status != exitOK &&
				stderr != say {
				t.Errorf("%q: exit status %d, prints %q and says %q, want %q", tt.args, status,
					stdout, stderr, say)
			}
		}
	})
	stdout, stderr, status := weftStore(t.Context(), "dump", backup)
	if n := strings.Count(stdout, "\n"); status != exitOK || n != 20 ||
		stderr != "weft: 20 rows\n" {
		t.Errorf("the backup: exit status %d, %d lines, says %q", status, n, stderr)
	}
}

// Compact keeps the next id of Assign.
func TestStoreCompactIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	openNumbers(t, dir, func(m *numbers) {
		must(t, failure(m.Assign(t.Context(), []uint64{7, 8, 9}, make([]uint64, 3))))
		must(t, failure(m.Delete(t.Context(), []uint64{9}, nil)))
	})
	stdout, _, status := weftStore(t.Context(), "compact", dir)
	if status != exitOK || !strings.HasSuffix(stdout, " after, 2 rows\n") {
		t.Errorf("compact: exit status %d, prints %q", status, stdout)
	}
	stdout, _, _ = weftStore(t.Context(), "info", dir)
	if !strings.Contains(stdout, "3 at the checkpoint\n") {
		t.Errorf("info prints %s", stdout)
	}
}

// Info describes a store while a program writes checkpoints.
func TestStoreInfoAmidCheckpoints(t *testing.T) {
	dir, ended := numbersStore(t, 9), make(chan error, 1)
	openNumbers(t, dir, func(m *numbers) {
		go func() {
			var err error
			for i := uint64(0); i < 20 && err == nil; i++ {
				err = failure(m.Put(context.WithoutCancel(t.Context()), []uint64{i}, []uint64{i}))
				err = errors.Join(err, durable.Checkpoint(context.WithoutCancel(t.Context()), m))
			}
			ended <- err
		}()
		for running := true; running; {
			select {
			case err := <-ended:
				must(t, err)
				running = false
			default:
			}
			if _, stderr, status := weftStore(t.Context(), "info", dir); status != exitOK {
				t.Fatalf("exit status %d, says %q", status, stderr)
			}
		}
	})
}

func TestStoreUsage(t *testing.T) {
	dir := t.TempDir()
	none, store, full := filepath.Join(dir, "none"), numbersStore(t, 9), numbersStore(t, 9)
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{}, exitOK, ""},
		{[]string{"chekc"}, exitUsage,
			"weft: store chekc: no such command; did you mean check?\ntry 'weft store --help'\n"},
		{[]string{"info"}, exitUsage,
			"weft: store info: no folder DIR given\ntry 'weft store info --help'\n"},
		{[]string{"dump", ""}, exitUsage, "weft: store dump: no folder DIR given\n"},
		{[]string{"info", "a", "b"}, exitUsage, "weft: store info a b: takes only DIR\n"},
		{[]string{"backup", "a"}, exitUsage, "weft: store backup: no folder TO given\n"},
		{[]string{"restore", "a", "b", "c"}, exitUsage,
			"weft: store restore a b c: takes only BACKUP and DIR\n"},
		{[]string{"dump", "--limit=-1", store}, exitUsage,
			"weft: store dump --limit -1: must not be negative\n"},
		{[]string{"check"}, exitUnknown, "weft: store check: no folder DIR given\n"},
		{[]string{"check", "--nope"}, exitUnknown, "weft: store check: unknown flag: --nope\n"},
		{[]string{"check", "--device=tpu", store}, exitUnknown, "weft: --device \"tpu\""},
		{[]string{"check", none}, exitUnknown,
			"weft: store check " + none + ": no such file or directory\n"},
		{[]string{"check", "--repair", none}, exitUnknown,
			"weft: store check --repair " + none + ": no such file or directory\n"},
		{[]string{"info", none}, exitFailed, "weft: store info " + none +
			": no such file or directory\n"},
		{[]string{"dump", none}, exitFailed, "weft: store dump " + none +
			": no such file or directory\n"},
		{[]string{"compact", none}, exitFailed,
			"weft: store compact " + none + ": no such file or directory\n"},
		{[]string{"backup", none, none + "2"}, exitFailed,
			"weft: store backup " + none + ": no such file or directory\n"},
		{[]string{"restore", store, full}, exitFailed,
			"weft: store restore " + store + ": invalid options: folder " + full +
				" is not empty\n"},
		{[]string{"backup", store, store}, exitFailed,
			"weft: store backup " + store + ": invalid options: folder " + store +
				" is the store itself, or inside it\n"},
	} {
		stdout, stderr, status := weftStore(t.Context(), tt.args...)
		if status != tt.status || !strings.HasPrefix(stderr, tt.stderr) ||
			(tt.stderr == "") != (stderr == "") {
			t.Errorf("%q: exit status %d, want %d; says %q, want %q", tt.args, status, tt.status,
				stderr, tt.stderr)
		}
		if status != exitOK && stdout != "" {
			t.Errorf("%q: prints %q besides the error", tt.args, stdout)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("there are files: %v, %v", entries, err)
	}
}

// For a path that is no store, the error of each verb says what it is.
func TestNoStore(t *testing.T) {
	dir, store := t.TempDir(), numbersStore(t, 9)
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) string {
		must(t, errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o700),
			os.WriteFile(at(name), []byte(content), 0o600)))
		return at(name)
	}
	must(t, errors.Join(os.Mkdir(at("folder"), 0o700), syscall.Mkfifo(at("pipe"), 0o600)))
	write("files/a.csv", "a,b\n")
	write("other/MANIFEST", "text")
	write("mixed/MANIFEST", "text")
	write("mixed/CURRENT", "text")
	for path, want := range map[string]string{
		at("folder"):        "not a store but an empty folder",
		at("files"):         "not a store but a folder of other files, such as a.csv",
		at("other"):         "not a store: its MANIFEST is of another program",
		at("mixed"):         "not a store but a folder of other files, such as CURRENT",
		filepath.Dir(store): "not a store, but its folder store may be one", filepath.Join(store,
			manifestName): "not a folder but a file of the store " + store,
		fileOf(t, store, "log-"): "not a folder but a file of the store " +
			store, at("pipe"): "not a folder but a special file",
		newPool(t, 1): "not a folder but a pool: see weft pool", write("saved",
			"WEFTTAB1..."): "not a folder but a saved structure, which programs load by Load",
		write("empty", ""): "not a folder but an empty file", write("text",
			"text"): "not a folder but a file", at("text") + "/x": "not a directory",
	} {
		for verb, exit := range map[string]int{"info": exitFailed, "check": exitUnknown,
			"dump": exitFailed, "compact": exitFailed} {
			stdout, stderr, status := weftStore(t.Context(), verb, path)
			if say := "weft: store " + verb + " " + path + ": " + want + "\n"; status != exit ||
				stdout != "" || stderr != say {
				t.Errorf("%s: exit status %d, prints %q and says %q, want %q", verb, status, stdout,
					stderr, say)
			}
		}
	}
}

// An interrupted verb does nothing, and a check gives no verdict.
func TestStoreInterrupt(t *testing.T) {
	dir := numbersStore(t, 20_000)
	before := contents(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"check", dir}, {"check", "--repair", dir}, {"dump", dir},
		{"compact", dir}, {"backup", dir, dir + "2"}, {"restore", dir, dir + "2"}} {
		stdout, stderr, status := weftStore(ctx, args...)
		if status != exitInterrupted || stdout != "" || stderr != "weft: interrupted\n" {
			t.Errorf("%q: exit status %d, prints %q and says %q", args, status, stdout, stderr)
		}
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Error("the store has changed")
	}
	// An interrupt while dump prints.
	ctx, cancel = context.WithCancel(t.Context())
	var stderr bytes.Buffer
	a := &app{stdout: writerFunc(func(b []byte) (int, error) {
		cancel()
		return len(b),
			ctx.Err()
	}), stderr: &stderr}
	if status := run(ctx, []string{"store", "dump", dir}, a); status != exitInterrupted ||
		stderr.String() != "weft: interrupted\n" {
		t.Errorf("exit status %d, says %q", status, &stderr)
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Dump prints at most --limit rows. If the reader stops early, the output ends with a whole line.
func TestStoreDumpLimit(t *testing.T) {
	dir := numbersStore(t, 20_000)
	for limit, says := range map[string]string{"1": "1 row, and there are more",
		"20000": "20000 rows, and there are more", "20001": "20001 rows", "0": "20001 rows"} {
		_, stderr, status := weftStore(t.Context(), "dump", "--limit", limit, dir)
		if status != exitOK || stderr != "weft: "+says+"\n" {
			t.Errorf("--limit %s: exit status %d, says %q", limit, status, stderr)
		}
	}
	for _, format := range []string{"--json=false", "--json"} {
		out, stderr := &lines{left: 2}, new(bytes.Buffer)
		status := run(t.Context(), []string{"store", "dump", format, dir},
			&app{stdout: out, stderr: stderr})
		if status != exitPipe || stderr.Len() > 0 || out.cut || out.left > 0 {
			t.Errorf("%s: exit status %d, says %q, cut: %v", format, status, stderr, out.cut)
		}
	}
	kind := weightedSlabGraphKind()
	if stdout, stderr, _ := weftStore(t.Context(), "dump", "--limit=1",
		kind.newStore(t, true)); strings.Count(stdout, "\n") != 1 ||
		stderr != "weft: 1 row, and there are more\n" {
		t.Errorf("a graph: prints %q and says %q", stdout, stderr)
	}
}

// A failure to print is not a verdict.
func TestStoreWriteErrors(t *testing.T) {
	dir, damaged := numbersStore(t, 9), flip(t, numbersStore(t, 9), "log-", 80)
	for err, want := range map[error]int{syscall.EPIPE: exitPipe, syscall.ENOSPC: exitFailed} {
		for _, args := range [][]string{{"info", dir}, {"dump", dir}, {"compact", dir},
			{"check", dir}, {"check", damaged}} {
			for _, format := range []string{"--json=false", "--json"} {
				a := &app{stdout: brokenWriter{err}, stderr: new(bytes.Buffer)}
				status := run(t.Context(), slices.Concat([]string{"store", format}, args), a)
				if args[0] == "check" && status == exitUnknown {
					status = exitFailed
				}
				if status != want {
					t.Errorf("%v, %q: exit status %d, says %q", err, args, status, a.stderr)
				}
			}
		}
	}
}

// Messages are one line, whatever the name of the folder.
func TestStoreOddNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\nb\x1b[31m\xff")
	const shown = `a\nb\x1b[31m\xff`
	must(t, os.Rename(numbersStore(t, 9), dir))
	for verb, lines := range map[string]int{"info": 5, "check": 4, "compact": 1} {
		stdout, _, status := weftStore(t.Context(), verb, dir)
		if status != exitOK || strings.Count(stdout, "\n") != lines ||
			!strings.Contains(stdout, shown) {
			t.Errorf("%s: exit status %d, prints %q", verb, status, stdout)
		}
		if stdout, _, _ := weftStore(t.Context(), verb, "--json",
			dir); !json.Valid([]byte(stdout)) {
			t.Errorf("%s: not JSON: %q", verb, stdout)
		}
		_, stderr, _ := weftStore(t.Context(), verb, dir+"2")
		wantOneLine(t, []string{verb}, stderr, shown+"2: no such file or directory")
	}
}

// Shells complete folders only.
func TestStoreCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"info", ""}, ":16\n"}, {[]string{"dump", "a", ""}, ":4\n"},
		{[]string{"backup", "a", ""}, ":16\n"}, {[]string{"restore", "a", "b", ""}, ":4\n"},
	} {
		var out bytes.Buffer
		status := run(t.Context(), slices.Concat([]string{"__complete", "store"}, tt.args),
			&app{stdout: &out, stderr: new(bytes.Buffer)})
		if status != exitOK || out.String() != tt.want {
			t.Errorf("%q: exit status %d, offers %q", tt.args, status, &out)
		}
	}
}

// A manifest of any shape is refused or opened, without a panic.
func TestStoreShapes(t *testing.T) {
	dir := numbersStore(t, 9)
	for kind := range byte(12) {
		for _, key := range []string{"\x00\x00", "u\x08", "u\x40", "f\x20", "s\x00"} {
			for _, val := range []string{"\x00\x00", "u\x10", "u\x40", "x\x20"} {
				shape := base64.StdEncoding.EncodeToString([]byte(string(kind) + key + val +
					"\x01\x00\x00"))
				path := filepath.Join(dir, manifestName)
				text, err := os.ReadFile(path)
				must(t, err)
				old := regexp.MustCompile(`"shape": ".*"`).FindString(string(text))
				withManifest(t, dir, old, `"shape": "`+shape+`"`)
				stdout, stderr, status := weftStore(t.Context(), "check", dir)
				if status == exitOK && shape != "AHVAdUABAAA=" {
					t.Errorf("%q: prints %q and says %q", shape, stdout, stderr)
				}
			}
		}
	}
}

// On a terminal a line says what goes on.
func TestStoreProgress(t *testing.T) {
	dir := numbersStore(t, 9)
	for want, args := range map[string][]string{
		"\rchecking": {"check", dir}, "\rreading the store": {"dump", dir}, "\rcopying": {"backup",
			dir, dir + "2"}, "\rrepairing": {"check", "--repair", dir},
		"\rcompacting": {"compact", dir},
	} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, isTerminal: true}
		if status := run(t.Context(), append([]string{"store"}, args...), a); status != exitOK ||
			!strings.HasPrefix(errs.String(), want) || !strings.Contains(errs.String(), " \r") {
			t.Errorf("%q: exit status %d, says %q", args, status, &errs)
		}
	}
}

// Other verbs read what dump prints.
func TestStoreDumpRead(t *testing.T) {
	kind := stringsKind()
	_, stderr, status := runIn(t, filepath.Dir(kind.newStore(t, true)),
		"weft store dump store | weft distinct --header no --by 2 --csv - > out")
	if status != exitOK || !strings.Contains(stderr, "6 rows, ") ||
		!strings.Contains(stderr, "6 distinct") {
		t.Errorf("exit status %d, says %q", status, stderr)
	}
}

// The simulated GPU holds what the CPU does.
func TestStoreDevices(t *testing.T) {
	dev, err := cpu.Open(nil)
	must(t, err)
	must(t, dev.Close())
	for _, k := range []storeKind{storeKinds()[1],
		multiKind("multimap", "", nil, []int32{-1, 5}, []int64{9, 1}, nil, nil), plainGraphKind()} {
		stdout, stderr, status := weftStore(t.Context(), "check", "--device=sim:1",
			k.newStore(t, true))
		if status != exitOK || !strings.Contains(stdout, ": ok\n") {
			t.Errorf("%s: exit status %d, prints %q and says %q", k.name, status, stdout, stderr)
		}
	}
}
