//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
)

// counter names the pool if the test binary runs as the program to be killed.
const counter = "WEFT_DURABLE_POOL"

func TestMain(m *testing.M) {
	if path := os.Getenv(counter); path != "" {
		if err := durable(context.Background(), path, os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

func Example_durable() {
	dir, err := os.MkdirTemp("", "weft")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// Three lines of the second have been counted.
	for _, visits := range []string{"7\n7\n3\n", "7\n7\n3\n9\n"} {
		if err := durable(context.Background(), filepath.Join(dir, "pool"), strings.NewReader(visits), os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// from line 0
	// counted 3
	// 2 different numbers
	// from line 3
	// counted 4
	// 3 different numbers
}

// However often the program is killed, each line is counted once in the end.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	visits, pool := filepath.Join(dir, "visits"), filepath.Join(dir, "pool")
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	want := map[uint64]uint64{}
	const n = 100*batch + 77
	for range n {
		visit := rng.Uint64N(1 << rng.UintN(14))
		fmt.Fprintln(&text, visit)
		want[visit]++
	}
	if err := os.WriteFile(visits, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	kills, counted := 0, 0 // number of lines according to the output
	for killed := true; killed; kills++ {
		killed = count(t, pool, visits, &counted, 1+rng.IntN(20))
	}
	if want[lines] = n; counted != n || kills < 5 {
		t.Errorf("%d of %d lines are counted, %d kills", counted, n, kills-1)
	}
	if is := counts(t, pool); !maps.Equal(is, want) {
		t.Errorf("%d numbers, %d lines; want %d and %d", len(is), is[lines], len(want), n)
	}
}

// count runs the program and kills it after a number of batches. It reports whether that happened
// before the end.
func count(t *testing.T, pool, visits string, counted *int, batches int) (killed bool) {
	t.Helper()
	text, err := os.ReadFile(visits)
	if err != nil {
		t.Fatal(err)
	}
	// The input has two batches more, so that the program does not end before it is killed.
	some := bytes.SplitAfterN(text, []byte{'\n'}, *counted+(batches+2)*batch+1)
	if len(some) > *counted+(batches+2)*batch {
		text = text[:len(text)-len(some[len(some)-1])]
	}
	in := &held{rest: bytes.NewReader(text), end: make(chan struct{})}
	if len(some) <= *counted+(batches+2)*batch {
		close(in.end)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stdin = append(os.Environ(), counter+"="+pool), in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for said := bufio.NewScanner(out); said.Scan(); {
		before := *counted
		switch line := said.Text(); {
		case scan(line, "from line %d", counted):
			if *counted < before {
				t.Errorf("it had counted %d lines, and begins at %d", before, *counted)
			}
		case scan(line, "counted %d", counted):
			if batches--; batches == 0 {
				cmd.Process.Kill()
				in.release()
			}
		}
	}
	in.release()
	return cmd.Wait() != nil
}

// held is a text with an end that waits until it is released.
type held struct {
	rest *bytes.Reader
	end  chan struct{}
}

func (h *held) Read(b []byte) (int, error) {
	if h.rest.Len() == 0 {
		<-h.end
	}
	return h.rest.Read(b)
}

func (h *held) release() {
	select {
	case <-h.end:
	default:
		close(h.end)
	}
}

func scan(line, format string, n *int) bool {
	_, err := fmt.Sscanf(line, format, n)
	return err == nil
}

// counts returns all pairs of a pool.
func counts(t *testing.T, path string) map[uint64]uint64 {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, report, err := gphash.OpenMap[uint64, uint64](t.Context(), path, dev, gphash.OpenOptions{Verify: true})
	if err != nil {
		t.Fatal(report, err)
	}
	defer m.Close()
	return maps.Collect(m.All())
}
