package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/mpi"
)

// Environment variables of ranks that a test starts.
const (
	partVariable   = "WEFT_SHARD_TEST_PART"
	folderVariable = "WEFT_SHARD_TEST_FOLDER"
	needVariable   = "WEFT_NEED_MPI" // tests fail, and are not skipped, if a launcher is missing
)

// launchers lists MPI launchers. says is a part of their version text.
var launchers = []struct{ name, command, says string }{
	{"OpenMPI", "mpirun", "Open MPI"}, {"MPICH", "mpiexec.mpich", "HYDRA"},
}

// eachLauncher runs a test with each launcher that is installed.
func eachLauncher(t testing.TB, test func(name, command string)) {
	for _, l := range launchers {
		version, err := exec.Command(l.command, "--version").CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(version), l.says):
			test(l.name, l.command)
		case os.Getenv(needVariable) != "":
			t.Fatalf("%s is not installed, and %s is set", l.name, needVariable)
		default:
			t.Logf("%s is not installed", l.name)
		}
	}
}

// start starts n ranks that run a part.
func start(t testing.TB, command string, n int, part, folder string) (*exec.Cmd, *bytes.Buffer) {
	args := []string{"-n", strconv.Itoa(n), os.Args[0], "-test.run=^TestPart$",
		"-test.timeout=120s"}
	if command == "mpirun" {
		args = slices.Concat([]string{"--oversubscribe", "--bind-to", "none"}, args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd, out := exec.CommandContext(ctx, command, args...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), partVariable+"="+part, folderVariable+"="+folder,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// mustPass runs a part on n ranks and returns its output.
func mustPass(t testing.TB, command string, n int, part, folder string) string {
	t.Helper()
	cmd, out := start(t, command, n, part, folder)
	err := cmd.Wait()
	if passed := strings.Count(out.String(), "part passed"); err != nil || passed != n {
		t.Fatalf("%s on %d ranks of %s: %v, %d passed\n%s", part, n, command, err, passed, out)
	}
	return out.String()
}

// TestPart runs a rank of a job that another test has started.
func TestPart(t *testing.T) {
	part := os.Getenv(partVariable)
	if part == "" {
		t.Skip("other tests start it")
	}
	err := mpi.Run(context.Background(), nil, func(ctx context.Context, c comm.Comm) error {
		r, err := New(c, host)
		if err != nil {
			return err
		}
		return roles[part](ctx, r, os.Getenv(folderVariable))
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("part passed")
}

// roles maps parts to what their ranks do.
var roles = map[string]func(ctx context.Context, r *Ranks, folder string) error{
	"model": partModel, "save": partSave, "load": partLoad, "wait": partWait, "bench": partBench,
}

// partModel compares maps with a model that all ranks compute.
func partModel(ctx context.Context, r *Ranks, _ string) error {
	// Waiting ranks of MPICH keep their cores busy, so more ranks than cores are slow.
	programs := 4
	if r.size > 2 {
		programs = 1
	}
	for p := range programs {
		rng := rand.New(rand.NewPCG(uint64(r.size), uint64(p)))
		m := &model{pairs: map[uint64]uint64{}}
		steps := randomSteps(rng, m, r.size, 24, 400, func() uint64 { return rng.Uint64N(1500) })
		for _, got := range []anyMap{mapOf(r, nil), orderedOf(r)} {
			for _, s := range steps {
				if err := s.run(ctx, r.rank, got); err != nil {
					return err
				}
			}
			if err := m.mustHold(ctx, r, got); err != nil {
				return err
			}
		}
	}
	return nil
}

const savedPairs = 10000

// partSave saves a map of savedPairs squares.
func partSave(ctx context.Context, r *Ranks, folder string) error {
	m := mapOf(r, nil)
	defer m.Close()
	var keys []uint64
	for k := r.rank; k < savedPairs; k += r.size {
		keys = append(keys, uint64(k*k))
	}
	if _, err := m.Put(ctx, keys, keys); err != nil {
		return err
	}
	n, err := m.Save(ctx, folder)
	return errors.Join(err, sameInt("Save", n, savedPairs))
}

// partLoad loads and checks the map of partSave.
func partLoad(ctx context.Context, r *Ranks, folder string) error {
	m := mapOf(r, nil)
	defer m.Close()
	n, err := m.Load(ctx, folder)
	if err = errors.Join(err, sameInt("Load", n, savedPairs), m.Check(ctx)); err != nil {
		return err
	}
	for k, v := range m.All() {
		if k != v {
			return fmt.Errorf("key %d has value %d", k, v)
		}
	}
	return nil
}

// partWait saves the map of partSave, and then inserts pairs until the rank is killed.
func partWait(ctx context.Context, r *Ranks, folder string) error {
	if err := partSave(ctx, r, folder); err != nil {
		return err
	}
	name := filepath.Join(folder, fmt.Sprintf("pid-%d", r.rank))
	if err := os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())), 0o666); err != nil {
		return err
	}
	m := mapOf(r, nil)
	for k := uint64(0); ; k++ {
		if _, err := m.Put(ctx, []uint64{k}, []uint64{k}); err != nil {
			return err
		}
	}
}

func TestMPI(t *testing.T) {
	eachLauncher(t, func(name, command string) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, 4} {
				mustPass(t, command, n, "model", "")
			}
			folder := t.TempDir()
			mustPass(t, command, 4, "save", folder)
			mustPass(t, command, 3, "load", folder)
		})
	})
}

// If a rank is killed, the job ends with an error, and other ranks can load the saved map.
func TestKilledRank(t *testing.T) {
	eachLauncher(t, func(name, command string) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			cmd, out := start(t, command, 2, "wait", folder)
			file := filepath.Join(folder, "pid-1")
			var pid int
			for end := time.Now().Add(30 * time.Second); pid == 0 && time.Now().Before(end); {
				text, _ := os.ReadFile(file)
				pid, _ = strconv.Atoi(string(text))
				time.Sleep(10 * time.Millisecond)
			}
			if pid == 0 {
				t.Fatalf("rank 1 does not write %s\n%s", file, out)
			}
			began := time.Now()
			if err := kill(pid); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || time.Since(began) > 10*time.Second {
				t.Errorf("the job ends with %v after %v\n%s", err, time.Since(began), out)
			}
			mustPass(t, command, 3, "load", folder)
		})
	})
}

// BenchmarkMPI measures two ranks with one core each. See BenchmarkGet and BenchmarkExchange.
func BenchmarkMPI(b *testing.B) {
	eachLauncher(b, func(name, command string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.Log(mustPass(b, command, 2, "bench", ""))
			}
		})
	})
}

// partBench prints the rate of the fastest of several calls, in 10^6 keys per second on all ranks.
func partBench(ctx context.Context, r *Ranks, _ string) error {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer dev.Close()
	r.dev = dev
	l, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: benchKeys / r.size,
		Seed: 1})
	if err != nil {
		return err
	}
	m := NewMap(r, l)
	defer m.Close()
	keys := shuffled(r.rank, r.size)
	vals, parts := make([]uint64, len(keys)), make([]int64, r.size)
	fill(parts, int64(len(keys)/r.size*8))
	if _, err := m.Put(ctx, keys, vals); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Get", func() error { _, err := m.Get(ctx, keys, vals, nil); return err }},
		{"AllToAllV", func() error {
			return r.comm.AllToAllV(ctx, comm.Host(raw(keys)), parts, comm.Host(raw(vals)), parts)
		}},
		{"partitioned", func() error {
			x := r.open(sign(methodPut, 0, 0, 0, 0), new(owners))
			begin(ctx, x, keys, combineLast, false)
			sendColumn(x, keysOut, keys)
			_, err := x.end()
			return err
		}},
	} {
		best := time.Hour
		for range 12 {
			began := time.Now()
			if err := errors.Join(c.call(), r.comm.Barrier(ctx)); err != nil {
				return err
			}
			best = min(best, time.Since(began))
		}
		if r.rank == 0 {
			fmt.Printf("%s %.1f Mkeys/s\n", c.name, benchKeys/best.Seconds()/1e6)
		}
	}
	return nil
}

// kill ends a process by SIGKILL.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
