package gphash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
)

var (
	trapRounds = flag.Int("trap-rounds", 4, "how often a GPU is lost beside a writer")
	trapLimit  = flag.Duration("trap-limit", 2*time.Minute, "after which a writer that loses its GPU has to say where it waits, and fails")
)

// trap is a kernel that waits for a given number of microseconds and then loses the device.
var trap = device.Image{Name: "trap", Targets: []device.Target{{Arch: 80, Params: map[string]int{"wait": 8}, PTX: `
.version 7.0
.target sm_80
.address_size 64

.visible .entry wait(
	.param .align 8 .b8 wait_param_0[8]
)
{
	.reg .pred %p<2>;
	.reg .b64 %rd<2>;

	ld.param.u64 	%rd1, [wait_param_0];
AGAIN:
	setp.eq.s64 	%p1, %rd1, 0;
	@%p1 bra 	OVER;
	nanosleep.u32 	1000;
	sub.s64 	%rd1, %rd1, 1;
	bra 	AGAIN;
OVER:
	trap;
	ret;
}
`}}}

// gpuToLose returns the name of the GPU to lose. It is a simulated GPU if tests run on the CPU.
func gpuToLose() string {
	if choice := os.Getenv(devicetest.Variable); choice != "" && choice != "cpu" {
		return choice
	}
	return "sim:1"
}

// trapped runs a writer. A kernel traps alongside its batches, and the writer continues in the same
// process and closes the pool.
func trapped(p *killPlan) error {
	dev, _, err := auto.Open(gpuToLose())
	if err != nil {
		return err
	}
	x, err := p.open(dev)
	if err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	m, err := dev.Load(&trap)
	if err != nil {
		return err
	}
	k, err := m.Kernel("wait")
	if err != nil {
		return err
	}
	lost := false
	for n := p.First; n < p.First+p.Sitting; n++ {
		if n == p.First+p.Sitting/4 {
			if err := device.Launch(s, k, device.Dim{X: 1}, device.Dim{X: 1}, &p.Trap); err != nil {
				return err
			}
		}
		switch err := p.batch(n).run(x); {
		case err == nil:
			fmt.Println("done", n)
		case errors.Is(err, device.ErrLost) && !lost:
			lost = true
			fmt.Println("lost", n)
		default:
			return fmt.Errorf("batch %d: %w", n, err)
		}
	}
	fmt.Println("check", 0)
	err = x.Check(ctx)
	if errors.Is(err, device.ErrLost) && !lost { // the trap came after the last batch
		err = x.Check(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Println("close", 0)
	if err := x.Close(); err != nil && !errors.Is(err, device.ErrLost) {
		return err
	}
	fmt.Println("closed", 0)
	return nil
}

// A kernel traps on the GPU at any time. All operations acknowledged before and after are done.
// Each key of the interrupted batch is as before the batch or after one of its operations.
func TestTrap(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	seen := map[string]int{}
	for n := range *trapRounds {
		dir := memoryDir(t)
		tr := newKillTrial(filepath.Join(dir, "pool"), uint64(n), seen)
		for seed := uint64(n); tr.plan.Atomic; {
			seed += uint64(*trapRounds)
			tr = newKillTrial(tr.plan.Path, seed, seen)
		}
		tr.plan.Sitting, tr.plan.Trap, tr.plan.Large = 80, uint64(1+tr.rng.IntN(20_000)), 1<<30
		if gpuToLose() != "sim:1" {
			tr.plan.Large = 3
		}
		plan, err := json.Marshal(&tr.plan)
		must(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killRole+"="+string(plan))
		out, err := cmd.StdoutPipe()
		must(t, err)
		var stacks bytes.Buffer
		cmd.Stderr = &stacks
		must(t, cmd.Start())
		limit := time.AfterFunc(*trapLimit, func() { cmd.Process.Signal(syscall.SIGQUIT) })
		// if the process does not react to the signal
		hang := time.AfterFunc(*trapLimit+10*time.Second, func() { cmd.Process.Kill() })
		last, output := "", "nothing"
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var batch int
			last = lines.Text()
			output = last
			switch fmt.Sscan(last, &last, &batch); last {
			case "done", "lost":
				tr.applyBatch(batch, last == "done")
				tr.acked = batch + 1
				seen[last]++
			case "create", "check", "close", "closed":
			default:
				t.Fatalf("the writer says %q", lines.Text())
			}
		}
		err = cmd.Wait()
		limit.Stop()
		hang.Stop()
		if last != "closed" || err != nil {
			t.Fatalf("seed %d: the writer, whose GPU is lost after %d µs, ends with %q: %v\n%s", n, tr.plan.Trap, output, err, &stacks)
		}
		tr.check(t, openCPU(t))
		must(t, os.RemoveAll(dir))
	}
	if seen["lost"] == 0 {
		t.Error("no GPU was lost")
	}
	t.Log(seen)
}
