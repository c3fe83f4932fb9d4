package mpi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Environment variables of tests.
const (
	// partVariable names the part that a process runs, if a test has started it.
	partVariable = "WEFT_MPI_TEST_PART"
	// sizeVariable is the number of ranks of the job.
	sizeVariable = "WEFT_MPI_TEST_SIZE"
	// folderVariable names a folder that the ranks of a job share with the test.
	folderVariable = "WEFT_MPI_TEST_FOLDER"
	// largeVariable enables tests that take gigabytes of memory.
	largeVariable = "WEFT_MPI_TEST_LARGE"
	// needVariable makes tests fail, and not skip, if a launcher is missing.
	needVariable = "WEFT_NEED_MPI"
)

// launcher starts the ranks of a job.
type launcher struct {
	name   string
	soname string
	paths  []string // paths to try; the first installed one is used
	flags  []string
	prefix []string // command that runs the launcher, if any
}

var launchers = []launcher{
	{
		name: "OpenMPI", soname: "libmpi.so.40",
		paths: []string{"mpirun.openmpi", "mpirun"}, flags: []string{"--oversubscribe", "--bind-to", "none"},
	},
	{name: "MPICH", soname: "libmpich.so.12", paths: []string{"mpiexec.mpich", "mpiexec.hydra"}},
}

// eachLauncher runs a test with each launcher that is installed.
func eachLauncher(t *testing.T, test func(t *testing.T, l launcher)) {
	if os.Getenv(partVariable) != "" {
		t.Skip("this process is a rank")
	}
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			if l.path() == "" {
				absent(t, fmt.Sprintf("none of %v is installed", l.paths))
			}
			test(t, l)
		})
	}
}

// absent skips a test, or fails it if MPI is required.
func absent(t *testing.T, what string) {
	if os.Getenv(needVariable) != "" {
		t.Fatalf("%s, and %s is set", what, needVariable)
	}
	t.Skip(what)
}

func (l launcher) path() string {
	for _, name := range l.paths {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// Both Open MPI and MPICH call their launcher mpirun.
		version, err := exec.Command(path, "--version").CombinedOutput()
		if err == nil && strings.Contains(string(version), "Open MPI") == (l.name == "OpenMPI") {
			return path
		}
	}
	return ""
}

// job is a running job.
type job struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	began  time.Time
}

// start starts a job of n ranks that run a part. If n is 0, it starts one process without a
// launcher.
func (l launcher) start(t testing.TB, n int, part string, env ...string) *job {
	args := []string{os.Args[0], "-test.run=^TestPart$", "-test.timeout=60s"}
	if n > 0 {
		args = slices.Concat(l.prefix, []string{l.path()}, l.flags, []string{"-n", strconv.Itoa(n)}, args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	j := &job{exec.CommandContext(ctx, args[0], args[1:]...), new(bytes.Buffer), time.Now()}
	j.cmd.Env = append(os.Environ(), partVariable+"="+part, sizeVariable+"="+strconv.Itoa(max(n, 1)),
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "GOTRACEBACK=single")
	j.cmd.Env = append(j.cmd.Env, env...)
	j.cmd.Stdout, j.cmd.Stderr = j.output, j.output
	j.cmd.WaitDelay = 5 * time.Second
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return j
}

// succeed waits for a job and checks that all ranks have printed that they passed.
func (j *job) succeed(t testing.TB, ranks int) {
	t.Helper()
	err := j.cmd.Wait()
	if passed := strings.Count(j.output.String(), "part passed"); err != nil || passed != ranks {
		t.Errorf("%v: %v, %d of %d ranks passed\n%s", j.cmd.Args, err, passed, ranks, j.output)
	}
}

// fail waits for a job, and checks that it fails with the given texts in its output.
func (j *job) fail(t *testing.T, texts ...string) {
	t.Helper()
	if err := j.cmd.Wait(); err == nil {
		t.Errorf("%v succeeds, want an error\n%s", j.cmd.Args, j.output)
	}
	for _, text := range texts {
		if !strings.Contains(j.output.String(), text) {
			t.Errorf("%v does not print %q\n%s", j.cmd.Args, text, j.output)
		}
	}
}
