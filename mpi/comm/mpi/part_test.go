package mpi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/commtest"
	"github.com/weftgo/weft/mpi/comm/mpi"
)

// parts maps names to what the ranks of a job do.
var parts = map[string]func(t *testing.T, c comm.Comm) error{
	"suite":   suite,
	"signals": signals,
	"panic":   panics,
	"abort":   aborts,
	"error":   fails,
	"wait":    waits,
	"time":    times,
	"large":   large,
}

// TestPart runs a rank of a job.
func TestPart(t *testing.T) {
	part := os.Getenv(partVariable)
	if part == "" {
		t.Skip("runs in the jobs that other tests start")
	}
	err := mpi.Run(t.Context(), nil, func(_ context.Context, c comm.Comm) error {
		if want := os.Getenv(sizeVariable); strconv.Itoa(c.Size()) != want {
			return fmt.Errorf("the job has %d ranks, want %s", c.Size(), want)
		}
		return parts[part](t, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("part passed")
}

// suite runs the tests of package commtest, with transfers in one round and in several.
func suite(t *testing.T, c comm.Comm) error {
	launch := func(t *testing.T, body commtest.Body) {
		if err := body(t.Context(), c); err != nil {
			fmt.Fprintf(os.Stderr, "%s: rank %d of %d: %v\n", t.Name(), c.Rank(), c.Size(), err)
			time.Sleep(100 * time.Millisecond)
			c.Abort(1)
		}
	}
	commtest.Run(t, launch)
	mpi.SetMaxBytes(8000)
	commtest.Run(t, launch)
	return nil
}

// signals runs exchanges while other goroutines keep the collector and the scheduler busy. Both
// interrupt threads by signals.
func signals(t *testing.T, c comm.Comm) error {
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 {
		go func() {
			for !stop.Load() {
				garbage := make([]byte, 1<<16)
				sink.Store(&garbage)
			}
		}()
	}
	const part = 1 << 16
	bytes := make([]int64, c.Size())
	for i := range bytes {
		bytes[i] = part
	}
	for round := range 60 {
		send, recv := make([]byte, c.Size()*part), make([]byte, c.Size()*part)
		for i := range send {
			send[i] = byte(c.Rank() + i>>16 + round)
		}
		if err := c.AllToAllV(t.Context(), comm.Host(send), bytes, comm.Host(recv), bytes); err != nil {
			return err
		}
		for i, v := range recv {
			if want := byte(i>>16 + c.Rank() + round); v != want {
				return fmt.Errorf("round %d: byte %d is %d, want %d", round, i, v, want)
			}
		}
	}
	return nil
}

var sink atomic.Pointer[[]byte]

// panics makes the last rank panic while the others wait. Before that, each rank recovers from a
// fault, to check that Go's signal handlers are installed.
func panics(t *testing.T, c comm.Comm) error {
	if err := fault(); err == nil {
		return fmt.Errorf("no fault")
	}
	if c.Rank() == c.Size()-1 {
		panic("the last rank is out")
	}
	return c.Barrier(t.Context())
}

// fault dereferences nil and returns the panic as an error.
func fault() (err error) {
	defer func() { err, _ = recover().(runtime.Error) }()
	var p *int
	*p = 1
	return nil
}

// aborts makes the last rank abort while the others wait.
func aborts(t *testing.T, c comm.Comm) error {
	if c.Rank() == c.Size()-1 {
		time.Sleep(50 * time.Millisecond)
		c.Abort(7)
	}
	return c.Barrier(t.Context())
}

// fails makes MPI return an error on the last rank.
func fails(t *testing.T, c comm.Comm) error {
	if c.Rank() == c.Size()-1 {
		mpi.SendToNone(c)
	}
	return c.Barrier(t.Context())
}

// waits writes the process ids, and makes all other ranks wait for the last rank.
func waits(t *testing.T, c comm.Comm) error {
	name := filepath.Join(os.Getenv(folderVariable), strconv.Itoa(c.Rank()))
	if err := os.WriteFile(name+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	if c.Rank() == c.Size()-1 {
		time.Sleep(time.Minute)
	}
	return c.Barrier(t.Context())
}

// large sends a part of more than 2^31 bytes to the next rank. Few of the bytes are not 0.
func large(t *testing.T, c comm.Comm) error {
	const bytes, step = 1<<31 + 12_345, 100_003
	send, recv := make([]byte, bytes), make([]byte, bytes)
	for at := 0; at < bytes; at += step {
		send[at] = byte(at/step + c.Rank())
	}
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	sendBytes, recvBytes := make([]int64, c.Size()), make([]int64, c.Size())
	sendBytes[next], recvBytes[before] = bytes, bytes
	begin := time.Now()
	err := c.AllToAllV(t.Context(), comm.Host(send), sendBytes, comm.Host(recv), recvBytes)
	if err != nil {
		return err
	}
	fmt.Printf("large: %.2f GB/s\n", bytes/time.Since(begin).Seconds()/1e9)
	for at, v := range recv {
		want := byte(0)
		if at%step == 0 {
			want = byte(at/step + before)
		}
		if v != want {
			return fmt.Errorf("byte %d is %d, want %d", at, v, want)
		}
	}
	return nil
}

// times measures exchanges of 64 MiB per rank, and barriers.
func times(t *testing.T, c comm.Comm) error {
	const bytes, rounds, barriers = 64 << 20, 20, 1000
	send, recv := comm.Host(make([]byte, bytes)), comm.Host(make([]byte, bytes))
	parts := make([]int64, c.Size())
	for i := range parts {
		parts[i] = bytes / int64(c.Size())
	}
	var begin time.Time
	for round := range rounds + 1 {
		if round == 1 {
			begin = time.Now()
		}
		if err := c.AllToAllV(t.Context(), send, parts, recv, parts); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	begin = time.Now()
	for range barriers {
		if err := c.Barrier(t.Context()); err != nil {
			return err
		}
	}
	if c.Rank() != 0 {
		return nil
	}
	rates := fmt.Sprintln(bytes*rounds/took.Seconds()/1e9, time.Since(begin).Seconds()*1e6/barriers)
	return os.WriteFile(filepath.Join(os.Getenv(folderVariable), "rates"), []byte(rates), 0o600)
}
