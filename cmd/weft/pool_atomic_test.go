//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/hash"
)

// Atomic batches that a crash has left in the redo log are applied by a check, and not before.
func TestPoolAtomic(t *testing.T) {
	live, path := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "killed")
	stdout, stderr, status := runWeft(
		t,
		"",
		"pool",
		"create",
		"--json",
		live,
		fmt.Sprint("--key-size=", testKey),
		fmt.Sprint("--value-size=", testValue),
		"--capacity=100",
		"--size=16MiB",
		"--atomic-batch=100",
	)
	if status != exitOK {
		t.Fatal(stderr)
	}
	var created poolFile
	decode(t, stdout, &created)
	log := created.Pool.RedoLog
	if log == nil || log.Bytes != 1<<20 {
		t.Fatalf("prints %s", stdout)
	}
	var content []byte
	inPool(t, live, func(x *gphash.Index) {
		fillPool(t, x, 10)
		var err error
		content, err = os.ReadFile(live)
		must(t, err)
	})
	head := content[log.Offset:]
	records := head[64:][:binary.LittleEndian.Uint64(head[32:])]
	digest := func(of uint64, words []byte) uint64 {
		for ; len(words) > 0; words = words[8:] {
			of = hash.Uint64(of^binary.LittleEndian.Uint64(words), 0x9d39247e33776d41)
		}
		return of
	}
	sum := uint64(0)
	for i := range len(records) / 24 {
		sum += digest(uint64(i), records[24*i:][:24])
	}
	for _, c := range []struct {
		sum  uint64
		dump int
		line string
	}{
		{digest(sum, head[:56]), exitFailed, "1 atomic batches of the redo log applied"},
		{0, exitOK, "an atomic batch had been begun: nothing of it is there"},
	} {
		binary.LittleEndian.PutUint64(head[56:], c.sum)
		must(t, os.WriteFile(path, content, 0o600))
		if stdout, stderr, status := runWeft(t, "", "pool", "dump", path); status != c.dump ||
			(status != exitOK) != strings.Contains(stderr, "read-only") {
			t.Errorf("dump: exit status %d, prints %q and says %q", status, stdout, stderr)
		}
		stdout, stderr, status := runWeft(t, "", "pool", "check", path)
		if status != exitOK || !hasLine(stdout, strings.Fields(c.line)) {
			t.Errorf("check: exit status %d, prints %q and says %q", status, stdout, stderr)
		}
		if stdout, _, status := runWeft(t, "", "pool", "dump", path); status != exitOK ||
			strings.Count(stdout, "\n") != 10 {
			t.Errorf("dump behind it: exit status %d, prints %q", status, stdout)
		}
	}
	stdout, _, _ = runWeft(t, "", "pool", "info", path)
	if line := fmt.Sprint("redo log 1 MiB at ", log.Offset, ": batches are atomic"); !hasLine(
		stdout,
		strings.Fields(line),
	) {
		t.Errorf("no line %q in\n%s", line, stdout)
	}
}

// The log is large enough for the tail. A pool with a tail but without a log cannot be created.
func TestPoolAtomicTail(t *testing.T) {
	create := func(flags ...string) (string, string, int) {
		path := filepath.Join(t.TempDir(), "pool")
		return runWeft(
			t,
			"",
			append(
				[]string{
					"pool",
					"create",
					"--json",
					path,
					"--key-size=8",
					"--value-size=8",
					"--capacity=100",
					"--size=16MiB",
				},
				flags...)...)
	}
	stdout, stderr, status := create("--atomic-batch=100", "--atomic-tail=100000")
	if status != exitOK {
		t.Fatal(stderr)
	}
	var created poolFile
	if decode(t, stdout, &created); created.Pool.RedoLog.Bytes != 3<<20 {
		t.Errorf("a log of %d bytes for 100,100 operations of 24", created.Pool.RedoLog.Bytes)
	}
	if _, stderr, status = create("--atomic-tail=10"); status != exitUsage ||
		!strings.Contains(stderr, "AtomicTail 10 with AtomicBatch 0") {
		t.Errorf("a tail without batches: exit status %d, says %q", status, stderr)
	}
}
