package beam

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
)

// roleEnv makes the test binary play another role, in which it listens on a port.
const roleEnv = "WEFT_BEAM_ROLE"

// played plays the role of this process, if it has one, and reports whether it has.
func played() bool {
	role, port, _ := strings.Cut(os.Getenv(roleEnv), " ")
	if role == "" {
		return false
	}
	n, err := strconv.Atoi(port)
	switch role {
	case "prism":
		if err == nil {
			_, err = prism.CreateJobServer(context.Background(), prism.Options{Port: n})
		}
	case "worker":
		if err == nil {
			_, err = extworker.StartLoopback(context.Background(), n)
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	time.Sleep(5 * time.Minute)
	return true
}

// child is a process that plays a role.
type child struct {
	*exec.Cmd
	address string
	lines   *bufio.Scanner // output of the process
}

func start(t *testing.T, role string) *child {
	t.Helper()
	free := must(net.Listen("tcp", "localhost:0"))(t)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	c := &child{Cmd: exec.CommandContext(t.Context(), must(os.Executable())(t)),
		address: "localhost:" + port}
	c.Env = append(os.Environ(), roleEnv+"="+role+" "+port)
	out := must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	c.lines = bufio.NewScanner(out)
	c.await(t, "ready")
	return c
}

// await waits for a line of the child's output.
func (c *child) await(t *testing.T, line string) {
	t.Helper()
	for c.lines.Scan() {
		if c.lines.Text() == line {
			return
		}
	}
	t.Fatalf("the process ended before it wrote %q", line)
}

// set sets flags of Beam until the test ends.
func set(t testing.TB, flags map[*string]string) {
	for flag, value := range flags {
		old := *flag
		*flag = value
		t.Cleanup(func() { *flag = old })
	}
}

// Prism runs as a separate process, and the worker in this process.
func TestPrismProcess(t *testing.T) {
	set(t, map[*string]string{jobopts.Endpoint: start(t, "prism").address,
		jobopts.EnvironmentType: "LOOPBACK"})
	testJobs(t, "universal")
}

// Prism and the worker run as separate processes. The worker cannot use the memory of the driver,
// so rows are in files.
func TestWorkerProcess(t *testing.T) {
	setWorker(t, start(t, "prism"), start(t, "worker"))
	dir, n := t.TempDir(), 10_000
	file, columns := randomFile(t, rand.New(rand.NewPCG(1, 2)), n)
	if err := os.WriteFile(filepath.Join(dir, "in.parquet"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}
	p, s := sdk.NewPipelineWithRoot()
	rows := must(ReadParquet(s, dir+"/in.parquet", []string{"text", "number", "small"}))(t)
	sums := must(Group(s, rows, []string{"text", "number"}, []string{"small"}, aggs, nil))(t)
	keys := []string{"text", "number"}
	matches := must(Join(s, sums, rows, keys, keys, &JoinOptions{Kind: join.Semi, NullsMatch: true}))(t)
	if err := WriteParquet(s, dir+"/out", 1, matches); err != nil {
		t.Fatal(err)
	}
	if _, err := sdk.Run(t.Context(), "universal", p); err != nil {
		t.Fatal(err)
	}
	want := must(group.By(t.Context(), must(openHost())(t), []column.Column{columns[4], columns[0]},
		[]column.Column{columns[1]}, aggs, nil))(t)
	out := must(os.ReadFile(dir + "/out-00000-of-00001.parquet"))(t)
	var got []string
	f := must(parquet.Open(bytes.NewReader(out), int64(len(out))))(t)
	for columns, err := range f.Columns(t.Context(), 0, 1, 2, 3) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rowsOf(columns)...)
	}
	sameRows(t, got, rowsOf(append(want.Keys, want.Values...)))
}

// setWorker sets the flags for a job on a running worker.
func setWorker(t *testing.T, prism, worker *child) {
	set(t, map[*string]string{
		jobopts.Endpoint:          prism.address,
		jobopts.EnvironmentType:   "EXTERNAL",
		jobopts.EnvironmentConfig: worker.address,
		jobopts.WorkerBinary:      os.DevNull, // the worker is running already
	})
}

// TestFlink runs jobs on a job server of Flink, such as apache/beam_flink1.19_job_server, if the
// environment contains its address. It needs workers in this process, so Flink must run on this
// machine.
func TestFlink(t *testing.T) {
	endpoint := os.Getenv("FLINK_ENDPOINT")
	if endpoint == "" {
		t.Skip("FLINK_ENDPOINT is not set")
	}
	set(t, map[*string]string{jobopts.Endpoint: endpoint, jobopts.EnvironmentType: "LOOPBACK"})
	testJobs(t, "universal")
}

func init() { register.Function2x0(hang) }

// hang prints that it has begun, and never returns.
func hang(_ string, _ func([]byte)) {
	fmt.Println("working")
	time.Sleep(5 * time.Minute)
}

// If the worker or Prism is killed, the pipeline ends with an error.
func TestKilled(t *testing.T) {
	for _, victim := range []string{"worker", "prism"} {
		t.Run(victim, func(t *testing.T) {
			children := map[string]*child{"worker": start(t, "worker"), "prism": start(t, "prism")}
			setWorker(t, children["prism"], children["worker"])
			ended := make(chan error, 1)
			go func() {
				_, err := run(t, "universal", func(s sdk.Scope) sdk.PCollection {
					blocks := sdk.ParDo(s, hang, sdk.Create(s, "x"))
					return must(Distinct(s, blocks, []string{"k"}, nil))(t)
				})
				ended <- err
			}()
			children["worker"].await(t, "working")
			killed := time.Now()
			if err := children[victim].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err == nil {
					t.Error("no error")
				}
				t.Logf("after %v: %v", time.Since(killed), err)
			case <-time.After(10 * time.Second):
				t.Error("no error after 10 s")
			}
		})
	}
}
