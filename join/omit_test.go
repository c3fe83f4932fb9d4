package join_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/join"
)

// Each call that orders streams or waits for them is necessary. If one is omitted, joins are wrong.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	var tries []dst.Try
	for seed := range uint64(3) {
		tries = append(tries,
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device, seed uint64) { joinColumns(t, dev) }),
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device, seed uint64) { joinOnStreams(t, dev) }),
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device,
				seed uint64) {
				joinEnding(t, dev)
			}),
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device,
				seed uint64) {
				joinHostKeys(t, dev)
			}))
	}
	dst.Omit(t, ".", map[string]string{
		"t.spans.Sync(ctx) in (*gpuTable).submit": "of a map, not of the device: package linear's",
	}, tries...)
}

// joinSide returns n keys, each of them several times.
func joinSide(n int) []int32 {
	keys := make([]int32, n)
	for i := range keys {
		keys[i] = int32(i * i % 50)
	}
	return keys
}

// joinColumns joins columns of the host, in which some keys are null.
func joinColumns(t testing.TB, dev device.Device) {
	side := func(n int) []column.Column {
		valid := make([]bool, n)
		for i := range valid {
			valid[i] = i%7 != 0
		}
		return []column.Column{column.Of(joinSide(n)).WithValid(column.OfBools(valid))}
	}
	right, left := side(200), side(100)
	ix, err := join.New(t.Context(), dev, right, &join.Options{NullsMatch: true})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, ix, modelOf(right, true).answers(left, true), left)
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
}

// joinEnding builds indexes with contexts that end. Memory freed then must not be in use.
func joinEnding(t testing.TB, dev device.Device) {
	right := []column.Column{column.Of(joinSide(100))}
	for looks := int64(0); ; looks++ {
		ctx := &cancelAfter{Context: t.Context()}
		ctx.left.Store(looks)
		ix, err := join.New(ctx, dev, right, nil)
		if err == nil {
			err = ix.Close()
			if err := errors.Join(err, dev.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks: %v", looks, err)
		}
	}
}

// joinHostKeys joins host keys in small pieces, and stops.
func joinHostKeys(t testing.TB, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	right, left := joinSide(100), joinSide(200)
	ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, right))
	if err != nil {
		t.Fatal(err)
	}
	ix.SetPieceSize(600, 100)
	want := modelOf([]column.Column{column.Of(right)},
		false).answers([]column.Column{column.Of(left)}, false)
	if got := collect(t, ix.Inner(t.Context(), left)); !slices.Equal(got, want.inner) {
		t.Errorf("%d pairs, want %d", len(got), len(want.inner))
	}
	for range ix.Inner(t.Context(), left) {
		break
	}
	if err := errors.Join(ix.Close(), s.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	for looks := range int64(12) {
		ctx := &cancelAfter{Context: t.Context()}
		ctx.left.Store(looks)
		for _, err := range join.InnerOn(ctx, dev, left, right, nil) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("after %d looks: %v", looks, err)
			}
		}
	}
	for memory := int64(1 << 12); ; memory = memory * 5 / 4 {
		_, err := join.InnerInPieces(t.Context(), dev, left, right, memory,
			func(join.Pairs) bool { return true })
		if err == nil {
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
	}
}

// joinOnStreams joins rows that one stream uploads with a lookup on another.
func joinOnStreams(t testing.TB, dev device.Device) {
	s, look := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	right, left := joinSide(200), joinSide(100)
	want := modelOf([]column.Column{column.Of(right)}, false).answers([]column.Column{column.Of(left)}, false)
	keys := devicetest.Upload(t, look, left)
	ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, right))
	if err != nil {
		t.Fatal(err)
	}
	matches, err := ix.Matches(len(left))
	if err != nil {
		t.Fatal(err)
	}
	checkOn(t, look, matches.FindOn, matches, keys, want.inner, want.counts)
	if err := errors.Join(look.Sync(t.Context()), matches.Close(), ix.Close(), s.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
}
