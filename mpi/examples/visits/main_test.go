package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
)

func Example() {
	_ = local.Run(context.Background(), 3, func(ctx context.Context, c comm.Comm) error {
		return count(ctx, c)
	})
	// Output: 5 pages on 3 ranks; page 7: 6 visits, page 42: 3
}

// The guide shows what is run here.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("docs/cluster.md shows no Go")
	}
	for _, b := range blocks {
		if !strings.Contains(string(source), string(b[1])) {
			t.Errorf("docs/cluster.md shows what is not in main.go:\n%s", b[1])
		}
	}
}

// The same program runs on the ranks of MPI.
func TestMPI(t *testing.T) {
	launcher, err := exec.LookPath("mpirun")
	if err != nil {
		if os.Getenv("WEFT_NEED_MPI") != "" {
			t.Fatal(err)
		}
		t.Skip("no mpirun")
	}
	program := t.TempDir() + "/visits"
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(launcher, "-n", "2", "--oversubscribe", program)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.Output()
	if want := "4 pages on 2 ranks; page 7: 4 visits, page 42: 2\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}
