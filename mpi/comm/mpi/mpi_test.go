package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/mpi/comm/mpi"
)

func TestConformance(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(n), func(t *testing.T) { l.start(t, n, "suite").succeed(t, n) })
		}
	})
}

// TestAlone starts a program without a launcher.
func TestAlone(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		l.start(t, 0, "suite", "WEFT_MPI_LIBRARY="+l.soname).succeed(t, 1)
	})
}

// TestLarge exchanges parts of more than 2^31 bytes.
func TestLarge(t *testing.T) {
	if os.Getenv(largeVariable) == "" {
		t.Skipf("takes 9 GB of memory: set %s=1", largeVariable)
	}
	eachLauncher(t, func(t *testing.T, l launcher) {
		j := l.start(t, 2, "large")
		j.succeed(t, 2)
		t.Log(j.output)
	})
}

func TestSignals(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) { l.start(t, 2, "signals", "GOGC=10").succeed(t, 2) })
}

// TestFailures makes one rank of a job fail while the others wait.
func TestFailures(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		for part, text := range map[string]string{
			"panic": "rank 1 of 2: panic: the last rank is out",
			"abort": "",
			"error": "mpi: MPI_Sendrecv: ",
		} {
			t.Run(part, func(t *testing.T) {
				j := l.start(t, 2, part)
				j.fail(t, text)
				if took := time.Since(j.began); took > 10*time.Second {
					t.Errorf("the job ends after %v", took)
				}
				if code := j.cmd.ProcessState.ExitCode(); part == "abort" && code != 7 {
					t.Errorf("the job exits with %d, want the code of Abort", code)
				}
			})
		}
	})
}

// TestKilled kills a rank while the others wait for it. The job must end, and no process may
// remain.
func TestKilled(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		const size = 2
		folder := t.TempDir()
		j := l.start(t, size, "wait", folderVariable+"="+folder)
		pids := make([]int, size)
		for rank := range pids {
			pids[rank] = readPid(t, filepath.Join(folder, strconv.Itoa(rank)))
		}
		time.Sleep(100 * time.Millisecond) // time for rank 0 to enter its barrier
		killed := time.Now()
		if err := kill(pids[size-1]); err != nil {
			t.Fatal(err)
		}
		j.fail(t)
		took := time.Since(killed)
		t.Logf("the job ends %v after a rank is killed, with code %d", took, j.cmd.ProcessState.ExitCode())
		if took > 10*time.Second {
			t.Errorf("the job ends %v after a rank is killed", took)
		}
		for rank, pid := range pids {
			for running(pid) {
				if time.Since(killed) > 10*time.Second {
					t.Fatalf("rank %d lives on after its job", rank)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
}

// running reports whether a process exists and is no zombie.
func running(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

// readPid waits for a file that holds the id of a process.
func readPid(t *testing.T, name string) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("no rank writes %s", name)
	return 0
}

// TestOtherLauncher opens a library of another MPI than the launcher's.
func TestOtherLauncher(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		for _, other := range launchers {
			if other.name == l.name {
				continue
			}
			if other.path() == "" {
				absent(t, other.name+" is not installed")
			}
			l.start(t, 2, "suite", "WEFT_MPI_LIBRARY="+other.soname).fail(t, "the launcher has started 2 ranks")
		}
	})
}

// TestNoLauncher makes srun start ranks that do not find each other, as it does without its flag
// --mpi.
func TestNoLauncher(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l launcher) {
		l.start(t, 0, "suite", "WEFT_MPI_LIBRARY="+l.soname, "SLURM_STEP_NUM_TASKS=2").fail(t, "the launcher has started 2 ranks")
	})
}

func TestOpenFails(t *testing.T) {
	for name, text := range map[string]string{
		"libnothing.so": "install Open MPI or MPICH or name its library in WEFT_MPI_LIBRARY",
		"libc.so.6":     "it has no function MPI_Init_thread",
	} {
		_, err := mpi.Open(t.Context(), &mpi.Options{Library: name})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Open of %s returns %v, want %q", name, err, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mpi.Open(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with an ended context returns %v", err)
	}
}

// BenchmarkAllToAllV exchanges 64 MiB between two ranks. The rate counts all bytes that a rank
// sends, including the half that it sends to itself.
func BenchmarkAllToAllV(b *testing.B) {
	for _, l := range launchers {
		b.Run(l.name, func(b *testing.B) {
			if l.path() == "" {
				b.Skip("is not installed")
			}
			folder := b.TempDir()
			for range b.N {
				l.start(b, 2, "time", folderVariable+"="+folder).succeed(b, 2)
			}
			rates, err := os.ReadFile(filepath.Join(folder, "rates"))
			if err != nil {
				b.Fatal(err)
			}
			var rate, barrier float64
			if _, err := fmt.Sscan(string(rates), &rate, &barrier); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate, "GB/s")
			b.ReportMetric(barrier, "us/barrier")
		})
	}
}

// kill ends a process by SIGKILL.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
