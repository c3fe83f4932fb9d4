package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// If the system refuses memory to the Go runtime, the runtime ends the program with a trace and
// status 2. The program cannot prevent that. Under "ulimit -v" or "ulimit -d", the program
// therefore runs as a child of itself, and the parent only translates how the child ends.

// childEnv marks a process as the child. The child writes messages to file descriptor childStderr,
// and only the runtime writes to its ordinary standard error.
const (
	childEnv    = "WEFT_LIMITED_CHILD"
	childStderr = 3

	self   = "/proc/self/exe"
	arenas = "MALLOC_ARENA_MAX"
)

// standardError returns the file for messages.
func standardError() *os.File {
	if os.Getenv(childEnv) != "" {
		return os.NewFile(childStderr, "/dev/stderr")
	}
	return os.Stderr
}

// memoryLimited reports whether the memory of this process is limited.
func memoryLimited() bool {
	for _, resource := range []int{unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var limit unix.Rlimit
		if unix.Getrlimit(resource, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
			return true
		}
	}
	return false
}

// runLimited runs the program as a child and returns its exit status. If memory is not limited, ran
// is false.
func runLimited() (status int, ran bool) {
	if os.Getenv(childEnv) != "" || !memoryLimited() {
		return 0, false
	}
	// Use one malloc arena. By default each thread has its own, which takes 64 MiB of addresses.
	// malloc reads the variable only when a program starts.
	if os.Getenv(arenas) == "" {
		err := syscall.Exec(self, os.Args, append(os.Environ(), arenas+"=1"))
		fmt.Fprintf(os.Stderr, "weft: start under a limit of memory: %v\n", err)
		return exitFailed, true
	}
	// The child is killed when the thread that started it ends.
	runtime.LockOSThread()
	var trace head
	child := exec.Command(self, os.Args[1:]...)
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, &trace
	child.ExtraFiles = []*os.File{os.Stderr}
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := child.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "weft: start under a limit of memory: %v\n", err)
		return exitFailed, true
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s) // the child may have ended
		}
	}()
	err := child.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(os.Stderr, "weft: wait for the program under a limit of memory: %v\n", err)
		return exitFailed, true
	}
	return trace.judge(child.ProcessState.Sys().(syscall.WaitStatus)), true
}

// head stores the beginning of a trace.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	h.Buffer.Write(b[:min(len(b), max(0, 64<<10-h.Len()))])
	return len(b), nil
}

// refused matches the first lines of a trace if the runtime got no memory, or no thread for lack of
// memory for its stack.
var refused = regexp.MustCompile(`^(.*\n)?((fatal error|runtime): .*memory|runtime/cgo: pthread_create failed|runtime: failed to create new OS thread)`)

// judge returns the exit status for a child. If the limit ended the child, it prints a message.
func (h *head) judge(end syscall.WaitStatus) int {
	if refused.Match(h.Bytes()) {
		fmt.Fprintln(os.Stderr, "weft: out of memory: the address space or the data segment is limited; see ulimit -v and ulimit -d")
		return exitFailed
	}
	os.Stderr.Write(h.Bytes()) // a defect of the program: print the whole trace
	if end.Signaled() {
		return 128 + int(end.Signal()) // as shells report it
	}
	return end.ExitStatus()
}
