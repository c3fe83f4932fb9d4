package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// The test binary is the guest.
func TestMain(m *testing.M) {
	if os.Getenv(guestEnv) != "" {
		os.Exit(beGuest())
	}
	os.Exit(m.Run())
}

func needDevices(t *testing.T) {
	t.Helper()
	if err := available(); err != nil {
		t.Skip(err)
	}
}

func TestPowerCuts(t *testing.T) {
	needDevices(t)
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"-cuts", "12", "-changes", "60"}, &out, &errs); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	if rows := strings.Split(out.String(), "\n"); len(rows) != 4 || !strings.HasSuffix(rows[1], " 0") {
		t.Errorf("table:\n%s", &out)
	}
}

// With durable.OS, changes that had returned are lost, and only the last ones. A quarter of the
// cuts show that, so a second run is rare.
func TestLossesAreFound(t *testing.T) {
	needDevices(t)
	var errs bytes.Buffer
	dir := t.TempDir()
	var err error
	for seed := 0; err == nil && seed < 10; seed++ {
		args := []string{"-os", "-cuts", "12", "-changes", "400", "-save", dir, "-seed", fmt.Sprint(seed)}
		err = run(t.Context(), args, io.Discard, &errs)
	}
	losses := strings.Count(errs.String(), "lost the last")
	saved, failed := os.ReadDir(dir)
	if !errors.Is(err, errLoss) || losses == 0 || failed != nil || len(saved) != losses {
		t.Errorf("%v; %d disks saved, %v, for\n%s", err, len(saved), failed, &errs)
	}
}

// An interrupt ends a guest in the middle of its changes.
func TestInterrupt(t *testing.T) {
	needDevices(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, []string{"-cuts", "1000", "-changes", "1000000"}, &out, &out)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v\n%s", err, &out)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-cuts", "1"}, {"-changes", "0"}, {"-nonsense"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// A cut keeps what a flush covers, and any sectors of the rest.
func TestCut(t *testing.T) {
	whole := func(b byte) []byte { return bytes.Repeat([]byte{b}, blockBytes) }
	d := newDisk(newImage())
	d.log = []entry{{0, whole(1)}, {blockBytes, whole(1)}, {}, {0, whole(2)}, {blockBytes, whole(2)}}
	rng, torn := rand.New(rand.NewPCG(1, 0)), 0
	for range 200 {
		m := d.cut(len(d.log), rng)
		if m[0][superblockAt] != m[0][superblockAt+superblockBytes-1] {
			t.Fatal("the superblock is torn")
		}
		for at := 0; at < blockBytes; at += sectorBytes {
			sector := m[1][at : at+sectorBytes]
			if b := sector[0]; b == 0 || bytes.Count(sector, sector[:1]) != sectorBytes {
				t.Fatalf("sector %v", sector)
			}
		}
		if bytes.Contains(m[1][:], []byte{1}) && bytes.Contains(m[1][:], []byte{2}) {
			torn++
		}
		if m = d.cut(2, rng); m[2] != nil {
			t.Fatal("a block that was never written")
		}
		if m = d.cut(3, rng); !bytes.Equal(m[0][:], whole(1)) || !bytes.Equal(m[1][:], whole(1)) {
			t.Fatal("a write before a flush is lost")
		}
	}
	if torn == 0 {
		t.Error("no write is torn")
	}
}

// A store may have the change that had not returned, but no other change too many or too few.
func TestStory(t *testing.T) {
	s := newStory()
	for i := range uint64(3) {
		s.begin(int(10*i), change{Keys: []uint64{i}, Vals: []uint64{i}})
		s.finish(int(10*i+5), 0)
	}
	for _, c := range []struct {
		at, pairs int
		ok        bool
	}{{0, 0, true}, {0, 1, false}, {1, 1, true}, {4, 0, true}, {5, 0, false}, {10, 2, false},
		{11, 2, true}, {19, 0, false}, {25, 3, true}, {25, 2, false}} {
		found := content{}
		for i := range uint64(c.pairs) {
			found[i] = i
		}
		if err := s.after(c.at).open(0, found); (err == nil) != c.ok {
			t.Errorf("%d pairs after a cut at %d: %v", c.pairs, c.at, err)
		}
	}
	err := s.after(25).open(0, content{7: 7})
	if err == nil || !strings.Contains(err.Error(), "never had") {
		t.Errorf("error %v", err)
	}
}
