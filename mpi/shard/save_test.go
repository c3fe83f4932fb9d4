package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/linear"
)

// saved puts n pairs into a map on the given number of ranks, and saves it to a new folder.
func saved(t *testing.T, ranks, n int) (dir string, pairs map[uint64]uint64) {
	t.Helper()
	dir, pairs = filepath.Join(t.TempDir(), "state"), map[uint64]uint64{}
	for k := range uint64(n) {
		pairs[k*k] = 3 * k
	}
	onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		var keys, vals []uint64
		for k := uint64(r.rank); k < uint64(n); k += uint64(ranks) {
			keys, vals = append(keys, k*k), append(vals, 3*k)
		}
		if _, err := m.Put(ctx, keys, vals); err != nil {
			return err
		}
		got, err := m.Save(ctx, dir)
		return errors.Join(err, sameInt("Save", got, n))
	})
	return dir, pairs
}

// Any number of ranks can load what any other number has saved.
func TestSaveAndLoad(t *testing.T) {
	for _, from := range []int{1, 2, 7, 64} {
		dir, pairs := saved(t, from, 5000)
		for _, to := range []int{1, 2, 3, 7, 64} {
			var mu sync.Mutex
			got := map[uint64]uint64{}
			onRanks(t, to, func(ctx context.Context, r *Ranks) error {
				m := mapOf(r, nil)
				defer m.Close()
				n, err := m.Load(ctx, dir)
				if err = errors.Join(err, sameInt("Load", n, len(pairs)),
					m.Check(ctx)); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for k, v := range m.All() {
					got[k] = v
				}
				return nil
			})
			if !maps.Equal(got, pairs) {
				t.Errorf("%d ranks load other pairs than %d ranks saved: %d, want %d", to, from,
					len(got), len(pairs))
			}
		}
	}
}

func TestSetSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	open := func(r *Ranks) *Set[int32] {
		s, err := linear.NewSet[int32](host, nil)
		if err != nil {
			panic(err)
		}
		return NewSet(r, s)
	}
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		s := open(r)
		defer s.Close()
		keys, added := []int32{-5, int32(r.rank), 7, 7, 9}, make([]bool, 5)
		n, err := s.Add(ctx, keys, added)
		want := []bool{r.rank == 0, true, r.rank == 0, false, r.rank == 0}
		if err != nil || n != 6 || !slices.Equal(added, want) {
			return fmt.Errorf("rank %d: Add returns %d, %v and %v", r.rank, n, err, added)
		}
		if n, err = s.Contains(ctx, []int32{-5, 8}, added[:2]); err != nil || n != 3 || !added[0] ||
			added[1] {
			return fmt.Errorf("rank %d: Contains returns %d, %v and %v", r.rank, n, err, added[:2])
		}
		_, err = s.Save(ctx, dir)
		return err
	})
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		s := open(r)
		defer s.Close()
		n, err := s.Load(ctx, dir)
		if err = errors.Join(err, sameInt("Load", n, 6), s.Check(ctx)); err != nil {
			return err
		}
		n, err = s.Contains(ctx, []int32{-5, 0, 1, 2, 7, 9, 8}, nil)
		return errors.Join(err, sameInt("Contains", n, 2*6))
	})
}

// load returns the error of Load on 2 ranks, which must be the same on both.
func load(t *testing.T, dir string) error {
	t.Helper()
	errs := make([]error, 2)
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		_, errs[r.rank] = m.Load(ctx, dir)
		return nil
	})
	if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
		t.Errorf("ranks return different errors: %v and %v", errs[0], errs[1])
	}
	return errs[0]
}

// A change of any byte of any file is an error. So is a file that is missing, truncated or too
// long.
func TestDamage(t *testing.T) {
	dir, _ := saved(t, 3, 300)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for range 60 {
			bad := slices.Clone(whole)
			at, bit := rng.IntN(len(bad)), byte(1)<<rng.IntN(8)
			bad[at] ^= bit
			if write(bad); !errors.Is(load(t, dir), weft.ErrFormat) {
				t.Errorf("bit %#x of byte %d of %s changed, and Load returns %v", bit, at, f.Name(),
					load(t, dir))
			}
		}
		for _, bad := range [][]byte{nil, whole[:len(whole)/2],
			append(slices.Clone(whole), "more"...)} {
			if write(bad); !errors.Is(load(t, dir), weft.ErrFormat) {
				t.Errorf("%s of %d bytes instead of %d, and Load returns %v", f.Name(), len(bad),
					len(whole), load(t, dir))
			}
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := load(t, dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without %s Load returns %v", f.Name(), err)
		}
		write(whole)
	}
	if err := load(t, dir); err != nil {
		t.Error(err)
	}
}

// If Save fails on one rank, the previous files remain. Otherwise the new files replace them.
func TestSaveReplaces(t *testing.T) {
	dir, _ := saved(t, 3, 300)
	names := func() string {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(files, " ")
	}
	before := names()
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		if r.rank == 1 {
			m.Close()
		}
		if _, err := m.Save(ctx, dir); !errors.Is(err, weft.ErrClosed) {
			return fmt.Errorf("rank %d: Save returns %v", r.rank, err)
		}
		return m.Close()
	})
	if after := names(); after != before {
		t.Errorf("a Save that failed left %s instead of %s", after, before)
	}
	for _, name := range []string{fileName(1, 0), "shard-notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		_, err := m.Save(ctx, dir)
		return err
	})
	if files := strings.Fields(names()); len(files) != 4 {
		t.Errorf("there are %v, want a manifest, 2 files, and one that is not ours", files)
	}
}

// Loading a structure with other types is an error.
func TestLoadOtherTypes(t *testing.T) {
	dir, _ := saved(t, 2, 10)
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		s, err := linear.NewSet[uint64](host, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		if _, err := NewSet(r, s).Load(ctx, dir); !errors.Is(err, weft.ErrFormat) {
			return fmt.Errorf("Load returns %v", err)
		}
		return nil
	})
}

// A manifest with invalid content is an error even if its digest is correct.
func TestWrongManifest(t *testing.T) {
	for name, change := range map[string]func(m *manifest){
		"a shard less":   func(m *manifest) { m.Files = m.Files[:2] },
		"a shard twice":  func(m *manifest) { m.Files[2] = m.Files[1] },
		"no shards":      func(m *manifest) { m.Files = nil },
		"number of keys": func(m *manifest) { m.Files[1].Keys++ },
		"format":         func(m *manifest) { m.Format = "weft shards 2" },
		"folder":         func(m *manifest) { m.Files[0].Name = "../" + m.Files[0].Name },
	} {
		dir, _ := saved(t, 3, 300)
		m, err := readManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := m.sum()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, manifestName), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := load(t, dir); !errors.Is(err, weft.ErrFormat) {
			t.Errorf("%s: Load returns %v", name, err)
		}
	}
}
