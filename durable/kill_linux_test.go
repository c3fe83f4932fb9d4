package durable_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

var killRounds = flag.Int("kill-rounds", 10, "processes to kill")

// killedStore names the store if the test binary runs as the program to be killed.
const killedStore = "WEFT_DURABLE_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedStore); dir != "" {
		if err := changeForEver(dir); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// changeForEver adds 1 to each of some counters, again and again, and prints how often. Checkpoints
// and growth are under way meanwhile.
func changeForEver(dir string) error {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return err
	}
	sync := durable.EveryBatch
	if os.Getpid()%2 == 0 {
		sync = durable.OS
	}
	m, err := durable.Open(ctx, dir, func() (*linear.Map[uint64, uint64], error) { return linear.New[uint64, uint64](dev, nil) }, durable.Options{Sync: sync, LogLimit: 1 << 14})
	if err != nil {
		return err
	}
	fmt.Println("open")
	var done [1]uint64
	if _, err := m.Get(ctx, []uint64{0}, done[:], nil); err != nil {
		return err
	}
	for n := done[0]; ; n++ {
		// Counter 0 counts all rounds, and every round has a key of its own.
		if _, err := m.Reduce(ctx, []uint64{0, n + 1}, []uint64{1, n + 1}, weft.Sum); err != nil {
			return err
		}
		fmt.Println(n + 1)
	}
}

// A killed process loses no change that had returned, whatever it was doing. Neither does a backup
// that another process has made of its store meanwhile. Stores are on a disk and in memory.
func TestKilledProcesses(t *testing.T) {
	const perStore = 100 // so that no store gets large
	for first := 0; first < *killRounds; first += perStore {
		dir := t.TempDir()
		if memory, err := os.MkdirTemp("/dev/shm", "weft-killed-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(memory) })
			if first/perStore%2 == 1 {
				dir = memory
			}
		}
		k := killer{dir: filepath.Join(dir, "store"), backup: filepath.Join(dir, "backup")}
		for i := range min(perStore, *killRounds-first) {
			if err := k.round(t, i); err != nil {
				t.Fatalf("round %d: %v", first+i, err)
			}
		}
		if k.reported < 10 {
			t.Errorf("only %d changes in all processes", k.reported)
		}
	}
}

// killer kills processes that change a store.
type killer struct {
	dir, backup string
	reported    uint64 // the last change that a process has reported
}

// round kills one process, and compares the store and a backup with what the process reported.
func (k *killer) round(t *testing.T, i int) error {
	command := exec.Command(os.Args[0], "-test.run", "none")
	command.Env = append(os.Environ(), killedStore+"="+k.dir)
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		return fmt.Errorf("the process says %q", lines.Text())
	}
	least := k.reported
	var backup error
	if i%2 == 0 {
		backup = durable.Backup(ctx, k.dir, k.backup)
	}
	kill := time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { command.Process.Kill() })
	for lines.Scan() {
		if n, err := fmt.Sscan(lines.Text(), &k.reported); n != 1 || err != nil {
			return fmt.Errorf("the process says %q", lines.Text())
		}
	}
	kill.Stop()
	_ = command.Wait() // killed
	if i%2 == 0 && backup == nil {
		_, backup = checkCounters(t, k.backup, least, k.reported+1)
		backup = errors.Join(backup, os.RemoveAll(k.backup))
	}
	if backup != nil {
		return fmt.Errorf("backup: %w", backup)
	}
	k.reported, err = checkCounters(t, k.dir, k.reported, k.reported+1)
	return err
}

// checkCounters opens a store and returns the number of changes that it has.
func checkCounters(t *testing.T, dir string, least, most uint64) (n uint64, err error) {
	m := openMap(t, dir, durable.Options{LogLimit: 1 << 14})
	got := maps.Collect(m.All())
	n = got[0]
	if n < least || n > most || n > 0 && len(got) != int(n)+1 {
		err = fmt.Errorf("the store has %d changes, want %d to %d, and %d counters", n, least, most, len(got))
	}
	for k, v := range got {
		if k > 0 && v != k {
			err = fmt.Errorf("counter %d is %d", k, v)
		}
	}
	return n, errors.Join(err, m.Close())
}
