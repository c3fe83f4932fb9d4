//go:build linux && (amd64 || arm64)

package clib_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// libc opens the C library and returns a function that looks up its functions.
func libc(t *testing.T) func(string) uintptr {
	lookup, err := clib.Open("libc.so.6", false)
	if err != nil {
		t.Fatal(err)
	}
	return lookup
}

func TestOpen(t *testing.T) {
	if at := libc(t)("no_such_function"); at != 0 {
		t.Errorf("a function that is absent lies at %#x", at)
	}
	if _, err := clib.Open("libnothing.so", false); err == nil || !strings.Contains(err.Error(), "libnothing.so") {
		t.Errorf("Open of an absent library returns %v", err)
	}
}

// TestCall passes the addresses of a slice and of a value to C, and reads a C string.
func TestCall(t *testing.T) {
	lookup := libc(t)
	text := []byte("some text\x00")
	if n := clib.Call(lookup("strlen"), clib.Address(text)); n != 9 {
		t.Errorf("strlen returns %d, want 9", n)
	}
	if s := clib.String(clib.Address(text)); s != "some text" {
		t.Errorf("String returns %q", s)
	}
	if s := clib.String(0); s != "" {
		t.Errorf("String of no address returns %q", s)
	}
	pair := new([2]int32)
	clib.Call(lookup("memset"), clib.Pointer(pair), 1, 8)
	if *pair != [2]int32{0x01010101, 0x01010101} {
		t.Errorf("memset stores %#x", *pair)
	}
	runtime.KeepAlive(text)
}

// TestAddressMoves takes an address, and then makes the goroutine's stack grow, which moves the
// stack.
func TestAddressMoves(t *testing.T) {
	done := make(chan error)
	go func() {
		value := new(int64) // would otherwise be on the stack
		at := clib.Pointer(value)
		grow(1000)
		clib.Call(libc(t)("memset"), at, 0xff, 8)
		if *value != -1 {
			done <- fmt.Errorf("the value is %#x", *value)
		}
		close(done)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func grow(n int) (sum byte) {
	var frame [512]byte
	if n > 0 {
		frame[n%512] = grow(n - 1)
	}
	for _, v := range frame {
		sum += v
	}
	return sum
}

// TestThread checks that all work runs on one thread while other goroutines keep the scheduler
// busy.
func TestThread(t *testing.T) {
	thread := clib.NewThread()
	defer thread.Stop()
	first := 0
	for round := range 100 {
		id := 0
		thread.Do(func() {
			runtime.Gosched()
			id = syscall.Gettid()
		})
		if round == 0 {
			first = id
		}
		if id != first {
			t.Fatalf("work runs on thread %d, before on %d", id, first)
		}
	}
}

// TestKeepSignals makes a library handle a fault signal. Afterwards Go must still turn a fault into
// a panic.
func TestKeepSignals(t *testing.T) {
	lookup := libc(t)
	clib.KeepSignals(func() { clib.Call(lookup("signal"), uintptr(syscall.SIGSEGV), 0) }) // SIG_DFL
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var p *int
	*p = 1
}
