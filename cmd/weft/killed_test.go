//go:build linux

package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var kills = flag.Int("kills", 12, "how often TestKilledJobs kills a job")

// A job that is killed while it spills groups or rows leaves no temporary file and uses no disk
// space.
func TestKilledJobs(t *testing.T) {
	var text strings.Builder
	text.WriteString("key,n\n")
	for i := range 400_000 {
		text.WriteString("a key of some length " + strconv.Itoa(i) + "," + strconv.Itoa(i%1000) + "\n")
	}
	file, dir := tableFile(t, "many.csv", text.String()), t.TempDir()
	jobs := [][]string{
		{"group", "--by", "key", "--agg", "count,last:n", "--csv", file},
		{"distinct", "--by", "key", "--csv", file},
		{"join", "--on", "key", "--csv", file, file},
	}
	free := func() int64 {
		var s syscall.Statfs_t
		must(t, syscall.Statfs(dir, &s))
		return int64(s.Bfree) * s.Bsize
	}
	run := func(job []string, after time.Duration) (killed bool) {
		cmd := weftCommand(t, append(job, "--memory", "16MiB", "--temp-dir", dir)...)
		must(t, cmd.Start())
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		return cmd.Wait() != nil
	}
	took := make([]time.Duration, len(jobs))
	for i, job := range jobs {
		start := time.Now()
		if run(job, time.Hour) {
			t.Fatalf("%v fails", job)
		}
		took[i] = time.Since(start)
	}
	before, killed := free(), 0
	for i := range *kills {
		n := i % len(jobs)
		if run(jobs[n], rand.N(took[n])) {
			killed++
		}
		left, err := os.ReadDir(dir)
		must(t, err)
		if len(left) > 0 {
			t.Fatalf("%v leaves %v", jobs[n], left)
		}
	}
	if killed < *kills/3 {
		t.Errorf("%d of %d were killed", killed, *kills)
	}
	if lost := before - free(); lost > 1<<30 { // other processes write to the disk, too
		t.Errorf("%d bytes are in use after %d kills", lost, killed)
	}
}
