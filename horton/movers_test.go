package horton_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// stage is a table that is full except for some holes. So the test determines which keys move, and
// to which slots.
type stage struct {
	*horton.Map[uint32, uint32]
	dev    device.Device
	stream *device.Stream
}

// home is the bucket whose keys move.
const home, slots, maxKey = 0, 8, 1 << 17

func newStage(t testing.TB, dev device.Device, reclaim horton.Reclaim) stage {
	const buckets = 16
	return stage{conformance.Open(t, horton.New[uint32, uint32], dev, horton.Crowded(horton.Options{
		Capacity: buckets * slots, Fixed: true, MaxLoad: 1, Slots: slots, Unordered: true, Reclaim: reclaim, Seed: 3,
	})), dev, devicetest.NewStream(t, dev)}
}

// put inserts keys one batch after the other.
func (s stage) put(t testing.TB, batches ...[]uint32) {
	t.Helper()
	for _, keys := range batches {
		on := devicetest.Upload(t, s.stream, keys)
		if err := errors.Join(s.PutOn(s.stream, on, on), s.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// fill puts primary keys into all buckets except home, and leaves holes. These keys never move.
func (s stage) fill(t testing.TB, holes map[uint32]int) (keys []uint32) {
	t.Helper()
	for b := range s.Buckets() {
		if b != home {
			keys = append(keys, s.KeysOf(b, maxKey, slots-holes[b])...)
		}
	}
	s.put(t, keys)
	return keys
}

// next returns the first key of home that is greater than after, may go to the buckets in to, and
// may not go to those in not.
func (s stage) next(after uint32, to, not []uint32) uint32 {
	for {
		after = s.KeysOf(home, after+1, 1)[0]
		may := s.SecondariesOf(after)
		within := func(b uint32) bool { return slices.Contains(may, b) }
		if !slices.ContainsFunc(to, func(b uint32) bool { return !within(b) }) && !slices.ContainsFunc(not, within) {
			return after
		}
	}
}

// otherKeys returns n primary keys of home that no other function of these tests returns.
func (s stage) otherKeys(n int) []uint32 { return s.KeysOf(home, 2*maxKey, n) }

// watch looks keys up repeatedly during changes of a stream.
func (s stage) watch(t testing.TB, keys []uint32, rounds int, change func(round int) error) {
	t.Helper()
	const lookups = 96
	look := devicetest.NewStream(t, s.dev)
	wanted := slices.Repeat(keys, lookups/len(keys))
	n := len(wanted)
	on := devicetest.Upload(t, look, wanted)
	vals, found := devicetest.Upload(t, look, make([]uint32, n*rounds)), devicetest.Upload(t, look, make([]bool, n*rounds))
	if err := look.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		lo, hi := round*n, (round+1)*n
		if err := errors.Join(s.GetOn(look, on, vals.Sub(lo, hi), found.Sub(lo, hi)), change(round)); err != nil {
			t.Fatal(err)
		}
	}
	there, got := make([]bool, n*rounds), make([]uint32, n*rounds)
	if err := errors.Join(s.Sync(t.Context()), found.CopyTo(t.Context(), look, there), vals.CopyTo(t.Context(), look, got)); err != nil {
		t.Fatal(err)
	}
	for i := range there {
		if !there[i] || got[i] != wanted[i%n] {
			t.Fatalf("round %d: key %d has value %d, found is %v", i/n, wanted[i%n], got[i], there[i])
		}
	}
}

// insertAndDelete inserts keys one by one into full buckets and deletes them again. Meanwhile it
// looks up the keys that stay and those that move. All keys must end up in their buckets.
func (s stage) insertAndDelete(t testing.TB, stay, watched []uint32, buckets ...uint32) {
	t.Helper()
	const rounds = 8
	var comers []device.Slice[uint32]
	for _, b := range buckets {
		comers = append(comers, devicetest.Upload(t, s.stream, s.KeysOf(b, 3*maxKey, 1)))
	}
	s.watch(t, watched, rounds, func(int) (err error) {
		for _, one := range comers {
			err = errors.Join(err, s.PutOn(s.stream, one, one), s.DeleteOn(s.stream, one, device.Slice[bool]{}))
		}
		return err
	})
	if err := s.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, s.Map, stay)
}

// backAndForth moves a key from one of its secondary buckets to another and back. In both buckets
// it is the only key that can move. Another key of its primary bucket stays.
func backAndForth(t testing.TB, dev device.Device) {
	s := newStage(t, dev, horton.Never)
	to := s.SecondariesOf(s.next(0, nil, nil))[:2]
	key := s.next(0, to, nil)
	away := s.otherSecondary(key)
	rest := s.next(0, []uint32{away}, to)
	stay := s.fill(t, map[uint32]int{to[0]: 1, to[1]: 1, away: 1})
	s.put(t, s.otherKeys(slots-1), []uint32{rest}, []uint32{key})
	stay = append(append(stay, s.otherKeys(slots-1)...), rest, key)
	s.insertAndDelete(t, stay, []uint32{key}, to...)
}

// inARow moves two keys one after the other and back: the second key takes the slot of the first.
func inARow(t testing.TB, dev device.Device) {
	s := newStage(t, dev, horton.Never)
	first, second, to := s.row()
	stay := s.fill(t, map[uint32]int{to[0]: 1, to[1]: 1, to[2]: 1})
	s.put(t, s.otherKeys(slots-1), []uint32{second}, []uint32{first})
	stay = append(append(stay, s.otherKeys(slots-1)...), first, second)
	s.insertAndDelete(t, stay, []uint32{first, second}, to[0], to[2])
}

// row returns a key that may go to the first two of three buckets, and a key that may go to the
// last two.
func (s stage) row() (first, second uint32, to []uint32) {
	for first = s.next(0, nil, nil); ; first = s.next(first, nil, nil) {
		mine := s.SecondariesOf(first)
		for second = s.next(first, nil, nil); second < maxKey/2; second = s.next(second, nil, nil) {
			others := s.SecondariesOf(second)
			only, too := slices.Clone(mine), slices.Clone(others)
			only = slices.DeleteFunc(only, func(b uint32) bool { return slices.Contains(others, b) })
			both := slices.DeleteFunc(slices.Clone(mine), func(b uint32) bool { return !slices.Contains(others, b) })
			too = slices.DeleteFunc(too, func(b uint32) bool { return slices.Contains(mine, b) })
			if len(only) > 0 && len(both) > 0 && len(too) > 0 {
				return first, second, []uint32{only[0], both[0], too[0]}
			}
		}
	}
}

// manyOfEach makes threads insert the same few keys at the same time, repeatedly. Each key must be
// present once, and be found.
func manyOfEach(t testing.TB, dev device.Device) {
	const rounds, keys, times = 4, 24, 6
	s := newStage(t, dev, horton.Never)
	stay := conformance.Sequence[uint32](1, keys)
	for range rounds {
		if err := s.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.put(t, slices.Repeat(stay, times))
		if err := s.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		conformance.WantPairs(t, s.Map, stay)
	}
}

// together moves two keys that share an entry.
func together(t testing.TB, dev device.Device) {
	s := newStage(t, dev, horton.Never)
	key, sharer, rest, to, away := s.entryOfTwo()
	stay := s.fill(t, map[uint32]int{to[0]: 2, to[1]: 2, away: 1})
	s.put(t, s.otherKeys(slots-1), []uint32{rest}, []uint32{key}, []uint32{sharer})
	stay = append(append(stay, s.otherKeys(slots-1)...), rest, key, sharer)
	s.insertAndDelete(t, stay, []uint32{key, sharer}, to...)
}

// promoted turns a bucket into type B and back into type A, repeatedly. The two keys in its last
// slots cannot become secondary, so another key becomes secondary and comes back. The key in the
// last slot, which the array takes, moves to its old slot.
func promoted(t testing.TB, dev device.Device) {
	const rounds = 8
	s := newStage(t, dev, horton.Eager)
	to := s.SecondariesOf(s.next(0, nil, nil))[:2]
	key := s.next(0, to, nil)
	another := s.next(key, to, nil)
	for s.TagOf(another) == s.TagOf(key) {
		another = s.next(another, to, nil)
	}
	last := s.next(0, nil, to)
	before := s.next(last, nil, to)
	stay := s.fill(t, map[uint32]int{to[0]: 2, to[1]: 2})
	stay = append(append(stay, s.otherKeys(slots-3)...), key, before)
	s.put(t, s.otherKeys(slots-3), []uint32{key}, []uint32{before})
	come := []device.Slice[uint32]{devicetest.Upload(t, s.stream, []uint32{last}), devicetest.Upload(t, s.stream, []uint32{another})}
	both := devicetest.Upload(t, s.stream, []uint32{last, another})
	all := append(slices.Clone(stay), last, another)
	s.watch(t, []uint32{key}, rounds, func(round int) error {
		err := errors.Join(s.PutOn(s.stream, come[0], come[0]), s.PutOn(s.stream, come[1], come[1]))
		if round == rounds-1 {
			err = errors.Join(err, s.Sync(t.Context()), s.CheckInvariants())
			conformance.WantPairs(t, s.Map, all)
			if stats := conformance.StatsOf(t, s.Map); stats.TypeB == 0 || stats.Secondary != 2 {
				t.Fatal(stats)
			}
		}
		return errors.Join(err, s.DeleteOn(s.stream, both, device.Slice[bool]{}))
	})
	if err := s.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, s.Map, stay)
	if stats := conformance.StatsOf(t, s.Map); stats.TypeB != 0 || stats.Entries != 0 || stats.PerHit != 1 || stats.PerMiss != 1 {
		t.Fatal(stats)
	}
}

// promotions promotes many buckets at the same time. Each gets one key more than it has slots. The
// key in its last slot becomes secondary, and the array takes the slot.
func promotions(t testing.TB, dev device.Device) {
	const rounds = 6
	s := newStage(t, dev, horton.Never)
	var stay, come []uint32
	for b := uint32(0); b < s.Buckets(); b += 2 {
		keys := s.KeysOf(b, 1, slots+1)
		stay, come = append(stay, keys[:slots]...), append(come, keys[slots])
	}
	on := devicetest.Upload(t, s.stream, come)
	for range rounds {
		if err := s.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.put(t, stay)
		s.watch(t, stay, 1, func(int) error { return s.PutOn(s.stream, on, on) })
		if stats := conformance.StatsOf(t, s.Map); stats.TypeB != .5 {
			t.Fatal(stats)
		}
	}
	conformance.WantPairs(t, s.Map, slices.Concat(stay, come))
}

// sharers has two keys that share an entry and cannot move together. If another key needs the slot
// of one of them, it is refused in that table.
func sharers(t testing.TB, dev device.Device) {
	s := newStage(t, dev, horton.Never)
	key, sharer, rest, to, away := s.entryOfTwo()
	stay := s.fill(t, map[uint32]int{to[0]: 2, to[1]: 1, away: 1})
	s.put(t, s.otherKeys(slots-1), []uint32{rest}, []uint32{key}, []uint32{sharer})
	stay = append(append(stay, s.otherKeys(slots-1)...), rest, key, sharer)
	comer := s.KeysOf(to[0], 3*maxKey, 1)
	n, err := s.Put(t.Context(), comer, comer)
	if err != nil && !errors.Is(err, weft.ErrFull) {
		t.Fatal(err)
	}
	conformance.WantPairs(t, s.Map, append(stay, comer[:n]...))
}

// entryOfTwo returns two keys that share an entry, two buckets to which they may go, a key of their
// primary bucket, and a bucket to which that key goes.
func (s stage) entryOfTwo() (key, sharer, rest uint32, to []uint32, away uint32) {
	key = s.next(0, nil, nil)
	to = s.SecondariesOf(key)[:2]
	sharer = s.next(key, to, nil)
	for s.TagOf(sharer) != s.TagOf(key) {
		sharer = s.next(sharer, to, nil)
	}
	away = s.otherSecondary(key)
	return key, sharer, s.next(0, []uint32{away}, to), to, away
}

// otherSecondary returns a bucket to which the key may not go, but other keys of home may.
func (s stage) otherSecondary(key uint32) uint32 {
	for b := range s.Buckets() {
		if b>>1 != home>>1 && !slices.Contains(s.SecondariesOf(key), b) {
			return b
		}
	}
	panic("it may go everywhere")
}
