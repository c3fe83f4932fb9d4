package btree_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestSnapshotsBesideChanges takes, reads and closes snapshots in several goroutines while another
// goroutine changes the map. Each snapshot must read the state in which it was taken, never a part
// of a change.
func TestSnapshotsBesideChanges(t *testing.T) {
	const n, rounds = 3000, 60
	m, err := btree.New[uint32, uint64](devicetest.OpenCPU(t, 2), nil)
	must(t, err)
	defer m.Close()
	keys, vals := make([]uint32, n), make([]uint64, n)
	for i := range keys {
		keys[i] = uint32(i)
	}
	_, err = m.Put(t.Context(), keys, vals)
	must(t, err)
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					oneRound(t, m, n)
				}
			}
		})
	}
	for round := range uint64(rounds) {
		for i := range vals {
			vals[i] = round + 1
		}
		if round%3 == 2 { // keys above the others come and go
			_, err = m.DeleteRange(t.Context(), []uint32{n}, []uint32{4 * n}, nil)
			must(t, err)
		}
		some := make([]uint32, n)
		for i := range some {
			some[i] = n + uint32(i)*uint32(1+round%3)
		}
		_, err = m.Put(t.Context(), append(some, keys...), append(vals[:n:n], vals...))
		must(t, err)
	}
	close(done)
	all.Wait()
	must(t, m.Check(t.Context()))
}

// oneRound takes and reads a snapshot. The first n keys must all have values of the same round.
func oneRound(t *testing.T, m *btree.Map[uint32, uint64], n int) {
	s, err := m.Snapshot(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	var rows weft.PairRows[uint32, uint64]
	if err := s.Range(t.Context(), []uint32{0}, []uint32{uint32(n - 1)}, 0, &rows); err != nil {
		t.Error(err)
	}
	keys, vals := rows.Row(0)
	for i, k := range keys {
		if int(k) != i || vals[i] != vals[0] {
			t.Errorf("pair %d is %d of round %d, others are of %d", i, k, vals[i], vals[0])
			break
		}
	}
	rank := make([]uint64, 1)
	if err := s.Rank(t.Context(), []uint32{^uint32(0)}, rank); err != nil || len(keys) != n || int(rank[0]) != s.Len() {
		t.Errorf("%d pairs, rank %d of %d: %v", len(keys), rank[0], s.Len(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsEndInAnyOrder closes snapshots in every order. The remaining snapshots must not
// change, although free nodes are reused. The map changes between some of the snapshots only.
func TestSnapshotsEndInAnyOrder(t *testing.T) {
	orders := [][]int{{}}
	for i := range 4 {
		var longer [][]int
		for _, o := range orders {
			for at := range len(o) + 1 {
				longer = append(longer, slices.Insert(slices.Clone(o), at, i))
			}
		}
		orders = longer
	}
	dev := devicetest.OpenCPU(t, 1)
	for _, order := range orders {
		for changes := range 8 {
			endInOrder(t, dev, order, changes)
		}
	}
}

func endInOrder(t *testing.T, dev device.Device, order []int, changes int) {
	const n = 400
	m, err := btree.New[uint32, uint64](dev, nil)
	must(t, err)
	defer m.Close()
	keys, vals := conformance.Sequence[uint32](0, n), make([]uint64, n)
	_, err = m.Put(t.Context(), keys, vals)
	must(t, err)
	var held [4]*weft.Snapshot[uint32, uint64]
	var want [4]map[uint32]uint64
	for i := range held {
		if i == 0 || changes>>(i-1)&1 == 1 {
			change(t, m, keys[80*i:80*i+60], keys[300:])
		}
		held[i], err = m.Snapshot(t.Context())
		must(t, err)
		want[i] = maps.Collect(held[i].All())
	}
	change(t, m, keys[0:290], keys[300:])
	for _, i := range order {
		must(t, held[i].Close())
		held[i] = nil
		for range 2 { // that take new nodes
			more := conformance.Sequence[uint32](n, 300)
			_, err = m.Put(t.Context(), more, make([]uint64, len(more)))
			must(t, err)
			must(t, m.Check(t.Context()))
			_, err = m.DeleteRange(t.Context(), more[:1], more[len(more)-1:], nil)
			must(t, err)
		}
		for k, s := range held {
			if s != nil && !maps.Equal(maps.Collect(s.All()), want[k]) {
				t.Fatalf("snapshot %d is another one behind the end of %d, in order %v, changes %b", k, i, order, changes)
			}
		}
	}
}

// change deletes some keys and gives others new values.
func change(t *testing.T, m *btree.Map[uint32, uint64], deleted, updated []uint32) {
	t.Helper()
	_, err := m.Delete(t.Context(), deleted, nil)
	must(t, err)
	vals := make([]uint64, len(updated))
	for i := range vals {
		vals[i] = uint64(m.Len())
	}
	_, err = m.Put(t.Context(), updated, vals)
	must(t, err)
}

// TestSnapshotsCloseAlongsideReads reads a snapshot while others close. Closing passes nodes to the
// previous version, in the list that the reader searches.
func TestSnapshotsCloseAlongsideReads(t *testing.T) {
	const n = 400
	m, err := btree.New[uint32, uint64](devicetest.OpenCPU(t, 2), nil)
	must(t, err)
	defer m.Close()
	keys := conformance.Sequence[uint32](0, n)
	vals := make([]uint64, n)
	_, err = m.Put(t.Context(), keys, vals)
	must(t, err)
	for round := range 300 {
		var held [3]*weft.Snapshot[uint32, uint64]
		for i := range held {
			held[i], err = m.Snapshot(t.Context())
			must(t, err)
		}
		vals[0] = uint64(round + 1)
		_, err = m.Put(t.Context(), keys, vals) // the newest version owns the old nodes
		must(t, err)
		reading, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := range 10 {
				for range held[0].All() {
					break
				}
				if i == 0 {
					close(reading)
				}
			}
		}()
		<-reading
		must(t, held[2].Close())
		must(t, held[1].Close())
		<-done
		must(t, held[0].Close())
	}
}
