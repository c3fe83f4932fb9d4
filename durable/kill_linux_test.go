package durable_test

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
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

// A killed process loses no change that had returned, whatever it was doing.
func TestKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	reported := uint64(0)
	for range *killRounds {
		command := exec.Command(os.Args[0], "-test.run", "none")
		command.Env = append(os.Environ(), killedStore+"="+dir)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "open" {
			t.Fatalf("the process says %q", lines.Text())
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { command.Process.Kill() })
		for lines.Scan() {
			if n, err := fmt.Sscan(lines.Text(), &reported); n != 1 || err != nil {
				t.Fatalf("the process says %q", lines.Text())
			}
		}
		kill.Stop()
		_ = command.Wait() // killed
		m := openMap(t, dir, durable.Options{LogLimit: 1 << 14})
		got := maps.Collect(m.All())
		n := got[0]
		if n < reported || n > reported+1 || reported > 0 && len(got) != int(n)+1 {
			t.Fatalf("%d rounds were reported, the store has %d and %d counters", reported, n, len(got))
		}
		for k, v := range got {
			if k > 0 && v != k {
				t.Fatalf("counter %d is %d", k, v)
			}
		}
		reported = n
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if reported < uint64(*killRounds) {
		t.Errorf("only %d rounds in all processes", reported)
	}
}
