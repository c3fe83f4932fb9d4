//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/pool"
)

// The pools of these tests have 16-byte keys and 24-byte values.
const (
	testKey   = 16
	testValue = 24
)

// inPool calls f with the index of a pool. It creates the pool if it does not exist.
func inPool(t *testing.T, path string, f func(x *gphash.Index)) {
	t.Helper()
	dev, err := cpu.Open(nil)
	must(t, err)
	defer dev.Close()
	var x *gphash.Index
	if _, err = os.Stat(path); err == nil {
		x, _, err = gphash.Open(t.Context(), path, dev, gphash.OpenOptions{})
	} else {
		x, err = gphash.Create(path, dev, gphash.Options{KeySize: testKey, ValueSize: testValue, Size: 8 << 20})
	}
	must(t, err)
	f(x)
	must(t, x.Close())
}

func pair(i int) (key, value []byte) {
	return fmt.Appendf(nil, "key %12d", i), fmt.Appendf(nil, "value number %11d", i)
}

// newPool creates a pool of n pairs and closes it.
func newPool(t *testing.T, n int) string {
	path := filepath.Join(t.TempDir(), "pool")
	inPool(t, path, func(x *gphash.Index) { fillPool(t, x, n) })
	return path
}

func fillPool(t *testing.T, x *gphash.Index, n int) {
	var keys, values []byte
	for i := range n {
		k, v := pair(i)
		keys, values = append(keys, k...), append(values, v...)
	}
	_, err := x.Put(t.Context(), keys, values)
	must(t, err)
}

// killedPool returns a pool of n pairs in the state in which a killed process leaves it.
func killedPool(t *testing.T, n int) string {
	return killed(t, func(x *gphash.Index) {
		fillPool(t, x, n+1)
		k, _ := pair(n)
		_, err := x.Delete(t.Context(), k, nil)
		must(t, err)
	})
}

// killed returns the file that a process leaves if it is killed after f, while the pool is open.
func killed(t *testing.T, f func(x *gphash.Index)) string {
	live, path := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "killed")
	inPool(t, live, func(x *gphash.Index) {
		f(x)
		content, err := os.ReadFile(live)
		must(t, err)
		must(t, os.WriteFile(path, content, 0o600))
	})
	return path
}

// change changes the bytes of a file.
func change(t *testing.T, path string, f func(content []byte)) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	f(content)
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

// damage corrupts the keys or the values of n pairs in a pool.
func damage(t *testing.T, path string, n int, values bool) string {
	t.Helper()
	info, err := pool.Inspect(path)
	must(t, err)
	s := &info.Copies[info.Current].Superblock
	top, slots := s.Levels[s.Top], int(s.Geometry.Slots)
	const slotWords = 2 + testKey/8
	return change(t, path, func(content []byte) {
		for bucket := int(top.Offset); n > 0 && bucket < int(top.Offset)+8*slots*slotWords<<s.Top; bucket += 8 * slots * slotWords {
			control := binary.LittleEndian.Uint64(content[bucket:])
			switch {
			case control>>62 != 2: // the first slot has no key
				continue
			case values:
				content[8*(control&(1<<48-1))] ^= 1
			default:
				content[bucket+8*slots] ^= 1
			}
			n--
		}
		if n > 0 {
			t.Fatal("too few pairs to break")
		}
	})
}

// breakCopy damages copy 0 or 1 of the superblock.
func breakCopy(t *testing.T, path string, copy int) string {
	return change(t, path, func(content []byte) { content[copy*pool.DataStart/2+100] ^= 1 })
}

func truncate(t *testing.T, path string) string {
	must(t, os.Truncate(path, 5<<20))
	return path
}

// decode parses JSON without unknown fields.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil || decoder.More() {
		t.Fatalf("%v in %s", err, text)
	}
}

func TestPoolCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	args := []string{
		"pool",
		"create",
		"--json",
		path,
		"--key-size=12",
		"--value-size=100",
		"--capacity=5000",
		"--size=64MiB",
		"--slots=4",
		"--hashes=3",
		"--levels=1",
		"--hash=fast",
	}
	stdout, stderr, status := runWeft(t, "", args...)
	if status != exitOK || stderr != "" {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	var got poolFile
	decode(t, stdout, &got)
	p := got.Pool
	if got.File != path || got.Bytes != 64<<20 || got.Allocated < got.Bytes ||
		got.Durability != "process" ||
		got.Error != "" ||
		p == nil {
		t.Fatalf("prints %s", stdout)
	}
	if p.KeyBytes != 12 || p.ValueBytes != 100 || p.Slots != 4 || p.Hashes != 3 || p.Levels != 1 || p.Hash != "fast" || !p.Clean ||
		p.UncleanOpens != 0 || p.Size != 64<<20 || len(p.LevelTable) != 1 ||
		p.LevelTable[0].State != "live" ||
		p.Created.IsZero() ||
		!strings.HasPrefix(p.Tool, "weft ") {
		t.Errorf("pool %+v", p)
	}
	if slots := 4 * p.LevelTable[0].Buckets; slots < 5000 {
		t.Errorf("%d slots", slots)
	}
	before, err := os.Stat(path)
	must(t, err)
	stdout, stderr, status = runWeft(t, "", args...)
	if want := "weft: pool create " + path + ": file already exists\n"; status != exitFailed ||
		stdout != "" ||
		stderr != want {
		t.Errorf("over a pool: exit status %d, prints %q and says %q", status, stdout, stderr)
	}
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("over a pool: %v, %v", after, err)
	}
}

func TestPoolUsage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	create := func(args ...string) []string {
		return append(
			[]string{"create", path, "--key-size=8", "--value-size=8", "--capacity=100"},
			args...)
	}
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{}, exitOK, ""},
		{[]string{"inof"}, exitUsage, "weft: pool inof: no such command; did you mean info?\ntry 'weft pool --help'\n"},
		{[]string{"info"}, exitUsage, "weft: pool info: no file given\ntry 'weft pool info --help'\n"},
		{[]string{"dump", ""}, exitUsage, "weft: pool dump: no file given\n"},
		{[]string{"info", "a", "b"}, exitUsage, "weft: pool info a b: one file at a time\n"},
		{[]string{"dump", "--limit=-1", "a"}, exitUsage, "weft: pool dump --limit -1: must not be negative\n"},
		{[]string{"create", path, "--key-size=8", "--value-size=8"}, exitUsage, "weft: pool create: --capacity is missing\n"},
		{create("--hash=md5"), exitUsage, "weft: pool create --hash \"md5\": want siphash or fast\n"},
		{create("--size=0"), exitUsage, "weft: pool create --size 0: must be positive\n"},
		{create("--slots=0"), exitUsage, "weft: pool create --slots 0: must be positive\n"},
		{create("--slots=-1"), exitUsage, "weft: pool create " + path + ": invalid options: Slots -1"},
		{create("--slots=16", "--hashes=4"), exitUsage, "weft: pool create " + path + ": invalid options: Slots 16 x Hashes 4 x Levels 2 are not between 8 and 32\n"},
		{create("--durability=disk"), exitUsage, "weft: pool create --durability \"disk\": want none, process or pmem\n"},
		{create("--assert-pmem=battery"), exitUsage, "weft: pool create --assert-pmem \"battery\": want persistent, ddio-off or global-persistent-flush\n"},
		{create("--durability=process", "--assert-pmem=persistent"), exitUsage, "weft: pool create --assert-pmem persistent: is for --durability pmem, not process\n"},
		{create("--durability=pmem"), exitFailed, "weft: pool create " + path + ": not durable: not a character device"},
		{[]string{"check", "--durability=disk", path}, exitUnknown, "weft: pool check --durability \"disk\""},
		{[]string{"dump", "--assert-pmem=battery", path}, exitUsage, "weft: pool dump --assert-pmem \"battery\""},
		{create("--size=1MiB"), exitUsage, "weft: pool create " + path + ": invalid options: Size 1048576 is less than"},
		{create("--size=64QB"), exitUsage, "weft: pool create: invalid argument \"64QB\" for \"--size\" flag: want bytes, or a number of MB, GB, MiB, GiB and so on\n"},
		{[]string{"create", path + "/none/pool", "--key-size=8", "--value-size=8", "--capacity=100"}, exitFailed, "weft: pool create " + path + "/none/pool: no such file or directory\n"},
		{[]string{"info", path}, exitFailed, "weft: pool info " + path + ": no such file or directory\n"},
		{[]string{"dump", path}, exitFailed, "weft: pool dump " + path + ": no such file or directory\n"},
		{[]string{"check", path}, exitUnknown, "weft: pool check " + path + ": no such file or directory\n"},
		{[]string{"check", filepath.Dir(path)}, exitUnknown, "weft: pool check " + filepath.Dir(path) + ": "},
		{[]string{"check"}, exitUnknown, "weft: pool check: no file given\ntry 'weft pool check --help'\n"},
		{[]string{"check", "--nope"}, exitUnknown, "weft: pool check: unknown flag: --nope\n"},
		{[]string{"check", "--device=tpu", path}, exitUnknown, "weft: --device \"tpu\""},
	} {
		stdout, stderr, status := runWeft(t, "", append([]string{"pool"}, tt.args...)...)
		if status != tt.status || !strings.HasPrefix(stderr, tt.stderr) ||
			(tt.stderr == "") != (stderr == "") {
			t.Errorf(
				"%q: exit status %d, want %d; says %q, want %q",
				tt.args,
				status,
				tt.status,
				stderr,
				tt.stderr,
			)
		}
		if status != exitOK && stdout != "" {
			t.Errorf("%q: prints %q besides the error", tt.args, stdout)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a pool")
	}
}

// Info describes a pool in any state.
func TestPoolInfo(t *testing.T) {
	whole := newPool(t, 10)
	for _, tt := range []struct {
		name, path string
		status     int
		lines      []string // fields of the output lines
		not        string
	}{
		{"whole", whole, exitOK, []string{"keys 16 bytes", "values 24 bytes", "geometry 8 slots, 2 hashes, 2 levels, siphash", "clean yes", "unclean opens 0",
			"size 8 MiB (8388608 bytes)", "durability process", "resizing no", "level 7 live, 128 buckets, 1 MiB at 5242880"}, "corrupt"},
		{"killed", killedPool(t, 10), exitOK, []string{"clean no: it is open, or was not closed"}, "corrupt"},
		{"copy A", breakCopy(t, newPool(t, 10), 0), exitOK, []string{"copy A corrupt: the checksums are wrong: torn or damaged", "copy B generation 2, counts"}, "copy B  corrupt"},
		{"copy B", breakCopy(t, newPool(t, 10), 1), exitOK, []string{"copy B corrupt: the checksums are wrong: torn or damaged", "copy A generation 3, counts", "clean yes"}, "copy A  corrupt"},
		{"both copies", breakCopy(t, breakCopy(t, newPool(t, 10), 1), 0), exitFailed, []string{"copy A corrupt: the checksums are wrong: torn or damaged"}, "uuid"},
		{"truncated", truncate(t, newPool(t, 10)), exitFailed, []string{"keys 16 bytes", "size 5 MiB (5242880 bytes)"}, "counts"},
		{"text", writeFile(t, strings.Repeat("text\n", 10000)), exitFailed, []string{`copy A invalid stream: it begins with "text\ntex", not "WEFTPOOL"`}, "uuid"},
	} {
		stdout, stderr, status := runWeft(t, "", "pool", "info", tt.path)
		if status != tt.status || (status == exitOK) != (stderr == "") {
			t.Errorf("%s: exit status %d, says %q", tt.name, status, stderr)
		}
		for _, line := range tt.lines {
			if !hasLine(stdout, strings.Fields(line)) {
				t.Errorf("%s: no line %q in\n%s", tt.name, line, stdout)
			}
		}
		if strings.Contains(stdout, tt.not) {
			t.Errorf("%s: %q in\n%s", tt.name, tt.not, stdout)
		}
		stdout, _, jsonStatus := runWeft(t, "", "pool", "info", "--json", tt.path)
		var got poolFile
		decode(t, stdout, &got)
		if jsonStatus != tt.status || (got.Error == "") != (jsonStatus == exitOK) || got.File != tt.path ||
			got.Copies[0].Copy != "A" {
			t.Errorf("%s: exit status %d, prints %s", tt.name, jsonStatus, stdout)
		}
	}
}

// While another process uses a pool, info works and all other verbs fail.
func TestPoolOpen(t *testing.T) {
	path := newPool(t, 10)
	inPool(t, path, func(*gphash.Index) {
		if stdout, stderr, status := runWeft(t, "", "pool", "info", path); status != exitOK ||
			!strings.Contains(stdout, "no: it is open") {
			t.Errorf("info: exit status %d, prints %q and says %q", status, stdout, stderr)
		}
		for verb, want := range map[string]int{"check": exitUnknown, "dump": exitFailed} {
			stdout, stderr, status := runWeft(t, "", "pool", verb, path)
			if say := "weft: pool " + verb + " " + path + ": locked: open in another process\n"; status != want ||
				stdout != "" ||
				stderr != say {
				t.Errorf("%s: exit status %d, prints %q and says %q", verb, status, stdout, stderr)
			}
		}
	})
}

// The exit status of a check depends on what it finds.
func TestPoolCheck(t *testing.T) {
	unfinished := change(
		t,
		newPool(t, 0),
		func(content []byte) { content[pool.DataStart+7] = 1 << 6 },
	)
	for _, tt := range []struct {
		name, path string
		flags      []string
		status     int
		want       poolCheck
		text       string // expected part of the output
		second     int    // exit status of the next check
	}{
		{"whole", newPool(t, 10), nil, exitOK, poolCheck{Verdict: "ok", Clean: true, Report: &gphash.Report{Keys: 10, Compared: true}}, "10 keys in 1536 slots\n", exitOK},
		{"killed", killedPool(t, 10), nil, exitOK, poolCheck{Verdict: "ok", Report: &gphash.Report{Keys: 10, Tombs: 1}}, "not closed by whoever had it last\n", exitOK},
		{"unfinished", unfinished, nil, exitOK, poolCheck{Verdict: "ok", Clean: true, Report: &gphash.Report{Unfinished: 1, Compared: true}}, "freed slots: 1 of unfinished", exitOK},
		{"a key", damage(t, newPool(t, 900), 2, false), nil, exitCorrupt, poolCheck{Verdict: "corrupt", Clean: true, Report: &gphash.Report{Keys: 898, Damaged: 2, Compared: true}}, "2 damaged slots\n", exitCorrupt},
		{"a value", damage(t, newPool(t, 900), 1, true), nil, exitCorrupt, poolCheck{Verdict: "corrupt", Clean: true, Report: &gphash.Report{Keys: 899, Damaged: 1, Compared: true}}, "the checksum of its value does not match\n", exitCorrupt},
		{"a value, unread", damage(t, newPool(t, 900), 1, true), []string{"--verify=false"}, exitOK, poolCheck{Verdict: "ok", Clean: true, Report: &gphash.Report{Keys: 900, Compared: true}}, "900 keys in", exitCorrupt},
		{"repaired", damage(t, damage(t, newPool(t, 900), 2, true), 1, false), []string{"--repair"}, exitRepaired, poolCheck{Verdict: "repaired", Clean: true, Report: &gphash.Report{Keys: 898, Damaged: 2, Compared: true}}, ": repaired\n", exitOK},
		{"copy A", breakCopy(t, newPool(t, 10), 0), nil, exitOK, poolCheck{Verdict: "ok", Report: &gphash.Report{Keys: 10}, Superblock: "copy A: corrupt: the checksums are wrong: torn or damaged"}, "superblock copy A: ", exitOK},
		{"both copies", breakCopy(t, breakCopy(t, newPool(t, 10), 1), 0), []string{"--repair"}, exitCorrupt, poolCheck{Verdict: "corrupt"}, ": corrupt\n", exitCorrupt},
		{"truncated", truncate(t, newPool(t, 10)), nil, exitCorrupt, poolCheck{Verdict: "corrupt", Clean: true}, ": corrupt\n", exitCorrupt},
	} {
		copied := filepath.Join(t.TempDir(), "copy")
		content, err := os.ReadFile(tt.path)
		must(t, err)
		must(t, os.WriteFile(copied, content, 0o600))
		stdout, stderr, status := runWeft(
			t,
			"",
			append([]string{"pool", "check", copied}, tt.flags...)...)
		if status != tt.status || !strings.Contains(stdout, tt.text) ||
			(stderr == "") != (status == exitOK) {
			t.Errorf("%s: exit status %d, prints %q and says %q", tt.name, status, stdout, stderr)
		}
		if status != exitOK {
			wantOneLine(t, []string{"pool", "check", tt.name}, stderr, "pool check "+copied+": ")
		}

		stdout, _, status = runWeft(
			t,
			"",
			append([]string{"pool", "check", "--json", tt.path}, tt.flags...)...)
		if status != tt.status {
			t.Errorf("%s: exit status %d with --json", tt.name, status)
		}
		tt.want.File = tt.path
		sameCheck(t, tt.name, stdout, &tt.want)
		if _, _, status := runWeft(t, "", "pool", "check", tt.path); status != tt.second {
			t.Errorf("%s: the second check: exit status %d", tt.name, status)
		}
	}
}

// sameCheck compares the output of a check. The pool has 1,536 slots.
func sameCheck(t *testing.T, name, stdout string, want *poolCheck) {
	t.Helper()
	var got poolCheck
	decode(t, stdout, &got)
	if (got.Report == nil) != (want.Report == nil) {
		t.Fatalf("%s: prints %s", name, stdout)
	}
	if r := got.Report; r != nil {
		if r.Slots != 1536 || (r.Damaged > 0) != (len(r.Damage) > 0) {
			t.Errorf("%s: report %+v", name, r)
		}
		if r.Times.File <= 0 || r.Times.Inspect <= 0 && want.Verdict != "corrupt" {
			t.Errorf("%s: times %+v", name, r.Times)
		}
		r.Slots, r.Damage, r.Times = 0, nil, gphash.Times{}
		if fmt.Sprint(*r) != fmt.Sprint(*want.Report) {
			t.Errorf("%s: report %+v, want %+v", name, *r, *want.Report)
		}
	}
	if got.File != want.File || got.Verdict != want.Verdict || got.Clean != want.Clean ||
		got.Superblock != want.Superblock ||
		(got.Error == "") != (want.Verdict != "corrupt") {
		t.Errorf("%s: prints %s", name, stdout)
	}
}

// For a file that is not a pool, the error of each verb names the kind of the file.
func TestPoolOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(
		t,
		errors.Join(
			os.Symlink("nothing", at("link")),
			syscall.Mkfifo(at("pipe"), 0o600),
			os.Mkdir(at("folder"), 0o700),
			os.WriteFile(
				at("empty"),
				nil,
				0o600,
			),
			os.WriteFile(
				at("parquet"),
				[]byte("PAR1\x15\x00"+strings.Repeat("\x00\xff", 5000)),
				0o600,
			),
			os.WriteFile(
				at("gzip"),
				[]byte("\x1f\x8b\x08\x00"),
				0o600,
			),
			os.WriteFile(at("csv"), []byte(strings.Repeat("a,b\n", 10000)), 0o600),
		),
	)
	for path, want := range map[string]string{
		at("link"): `a symbolic link, which is not followed: name its target, "nothing"`, at("pipe"): "a pipe", at("folder"): "a directory", at("empty"): "empty",
		at("parquet"): "a Parquet file", at("gzip"): "a gzip file", at("csv"): "a text file", "/dev/null": "a character device",
	} {
		for verb, exit := range map[string]int{"info": exitFailed, "check": exitUnknown, "dump": exitFailed} {
			_, stderr, status := runWeft(t, "", "pool", verb, path)
			if status != exit || !strings.Contains(stderr, want) {
				t.Errorf(
					"%s %s: exit status %d, says %q, want %q",
					verb,
					path,
					status,
					stderr,
					want,
				)
			}
		}
	}
}

// A pool that was open when the machine stopped is corrupt until it is repaired.
func TestPoolPowerLost(t *testing.T) {
	was := pool.Boot
	pool.Boot = func() pool.BootID { return pool.BootID{7} }
	path := killedPool(t, 10)
	pool.Boot = was
	for _, tt := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"info"}, exitOK, ""},
		{[]string{"dump"}, exitFailed, "weft pool check --repair"},
		{[]string{"check"}, exitCorrupt, "weft pool check --repair"},
		{[]string{"check", "--repair"}, exitRepaired, "operations may be missing"},
		{[]string{"check"}, exitOK, ""},
		{[]string{"dump"}, exitOK, "10 of 10 pairs"},
	} {
		stdout, stderr, status := runWeft(
			t,
			"",
			slices.Concat([]string{"pool"}, tt.args, []string{path})...)
		if status != tt.status || !strings.Contains(stderr, tt.says) {
			t.Errorf("%v: exit status %d, prints %q and says %q", tt.args, status, stdout, stderr)
		}
		if tt.args[0] == "info" &&
			!strings.Contains(stdout, "it was open when the machine stopped") {
			t.Errorf("info prints %s", stdout)
		}
	}
}

// An interrupted check gives no verdict.
func TestPoolInterrupt(t *testing.T) {
	path := newPool(t, 900)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, verb := range []string{"check", "dump"} {
		var stdout, stderr bytes.Buffer
		status := run(ctx, []string{"pool", verb, path}, &app{stdout: &stdout, stderr: &stderr})
		if status != exitInterrupted || stdout.Len() > 0 ||
			stderr.String() != "weft: interrupted\n" {
			t.Errorf("%s: exit status %d, prints %q and says %q", verb, status, &stdout, &stderr)
		}
	}
}

// A failure to print is not a verdict.
func TestPoolCheckWriteError(t *testing.T) {
	path := damage(t, newPool(t, 900), 1, false)
	for err, want := range map[error]int{syscall.EPIPE: exitPipe, syscall.ENOSPC: exitUnknown} {
		for _, format := range []string{"--json=false", "--json"} {
			a := &app{stdout: brokenWriter{err}, stderr: new(bytes.Buffer)}
			if status := run(t.Context(), []string{"pool", "check", format, path}, a); status != want {
				t.Errorf("%v, %s: exit status %d", err, format, status)
			}
		}
	}
}

// A pool that is being resized reports it, and the resize continues.
func TestPoolResize(t *testing.T) {
	n := 1000
	path := killed(t, func(x *gphash.Index) {
		fillPool(t, x, n)
		for {
			s, err := x.Stats(t.Context())
			must(t, err)
			if s.Draining > 0 {
				return
			}
			k, v := pair(n)
			_, err = x.Put(t.Context(), k, v)
			must(t, err)
			n++
		}
	})
	stdout, _, _ := runWeft(t, "", "pool", "info", path)
	for _, line := range []string{"resizing yes: keys move up from a level that is drained", "level 8 live, 256 buckets, 1 MiB at 6291456", "level 6 draining, 64 buckets, 1 MiB at 4194304"} {
		if !hasLine(stdout, strings.Fields(line)) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
	stdout, _, status := runWeft(t, "", "pool", "dump", path)
	if lines := strings.Count(stdout, "\n"); status != exitOK || lines != n {
		t.Errorf("dump: exit status %d, %d lines of %d", status, lines, n)
	}
	stdout, _, status = runWeft(t, "", "pool", "check", "--json", path)
	var got poolCheck
	decode(t, stdout, &got)
	if status != exitOK || !got.Resumed || got.Keys != uint64(n) || got.Clean {
		t.Errorf("check: exit status %d, prints %s", status, stdout)
	}
}

// All verbs support a pool of byte strings.
func TestPoolOfStrings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	stdout, stderr, status := runWeft(
		t,
		"",
		"pool",
		"create",
		path,
		"--key-size=variable",
		"--value-size=variable",
		"--capacity=100",
		"--size=16MiB",
	)
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "of variable length") {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	dev, err := cpu.Open(nil)
	must(t, err)
	defer dev.Close()
	x, _, err := gphash.OpenStrings(t.Context(), path, dev, gphash.OpenOptions{})
	must(t, err)
	_, err = x.Put(t.Context(), gphash.BytesOf("a", "long key"), gphash.BytesOf("", "value"))
	must(t, err)
	must(t, x.Close())
	var got poolFile
	stdout, _, _ = runWeft(t, "", "pool", "info", "--json", path)
	if decode(t, stdout, &got); got.Pool == nil || got.Pool.KeyBytes != 0 ||
		got.Pool.ValueBytes != 0 {
		t.Errorf("info prints %s", stdout)
	}
	stdout, stderr, status = runWeft(t, "", "pool", "dump", path)
	lines := strings.Split(stdout, "\n")
	slices.Sort(lines)
	if status != exitOK ||
		!slices.Equal(lines, []string{"", "61\t", "6c6f6e67206b6579\t76616c7565"}) ||
		stderr != "weft: 2 of 2 pairs\n" {
		t.Errorf("dump: exit status %d, prints %q and says %q", status, stdout, stderr)
	}
	if stdout, stderr, status = runWeft(t, "", "pool", "check", path); status != exitOK ||
		!strings.Contains(stdout, "2 keys in") {
		t.Errorf("check: exit status %d, prints %q and says %q", status, stdout, stderr)
	}
	change(t, path, func(content []byte) {
		at := bytes.Index(content, []byte("long key"))
		content[at+8] ^= 1 // change a byte of the value
	})
	if stdout, stderr, status = runWeft(t, "", "pool", "check", path); status != exitCorrupt ||
		!strings.Contains(stderr, "the checksum of its value does not match") {
		t.Errorf(
			"check of a damaged pool: exit status %d, prints %q and says %q",
			status,
			stdout,
			stderr,
		)
	}
	if stdout, stderr, status = runWeft(t, "", "pool", "check", "--repair", path); status != exitRepaired ||
		!strings.Contains(stdout, "1 keys in") {
		t.Errorf("repair: exit status %d, prints %q and says %q", status, stdout, stderr)
	}
	for _, c := range []struct{ size, want string }{
		{"0", "KeySize 0 is not between 1 and 128"}, {"any", "want a number of bytes, or variable"}, {"-1", "want a number of bytes, or variable"},
	} {
		_, stderr, status := runWeft(
			t,
			"",
			"pool",
			"create",
			path+"2",
			"--key-size="+c.size,
			"--value-size=8",
			"--capacity=100",
		)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("--key-size=%s: exit status %d, says %q", c.size, status, stderr)
		}
	}
}
