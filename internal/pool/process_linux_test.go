package pool

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A test that needs another process starts this binary with a role.
const role, rolePath = "WEFT_POOL_ROLE", "WEFT_POOL_PATH"

func TestMain(m *testing.M) {
	path := os.Getenv(rolePath)
	Boot = func() BootID { return boot }
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "hold": // keeps the pool open until the process is killed
		p, err := Open(path, false)
		if err == nil {
			err = p.Commit(func(s *Superblock) { s.Epoch = 99 })
		}
		if err == nil {
			copy(p.Bytes()[DataStart:], "stored")
		}
		fmt.Println("opened:", err)
		sleep(p)
	case "read":
		p, err := Open(path, true)
		fmt.Println("opened:", err)
		sleep(p)
	case "create", "create named": // creates a pool except for its name, and waits
		useUnnamed = os.Getenv(role) == "create"
		beforeLink = func() {
			fmt.Println("made")
			time.Sleep(time.Hour)
		}
		_, err := Create(path, sample(), testSize)
		fmt.Println(err)
	case "limited": // cannot write beyond 5 MiB of a file
		signal.Ignore(unix.SIGXFSZ)
		limit := unix.Rlimit{Cur: 5 << 20, Max: 5 << 20}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
		}
		_, err := Create(path, sample(), 8<<20)
		fmt.Println(errors.Is(err, unix.EFBIG), err)
	case "small": // uses a new file system of 10 MiB
		fmt.Println(onSmallSystem(path))
	case "huge": // uses a new file system of huge pages
		fmt.Println(onHugePages(path))
	}
}

// sleep waits until the process ends, with a pool open. With select {} the runtime would detect a
// deadlock and exit in programs without cgo.
func sleep(p *Pool) {
	time.Sleep(time.Hour)
	runtime.KeepAlive(p)
}

// start starts this binary with a role, and returns the first line of its output.
func start(t *testing.T, as, path string, attributes *syscall.SysProcAttr) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+as, rolePath+"="+path)
	cmd.SysProcAttr = attributes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("the system starts no such process: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s says nothing: %v", as, err)
	}
	return cmd, strings.TrimSpace(line)
}
