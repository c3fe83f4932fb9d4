package conformance

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func (k kind[S]) saved(t testing.TB, r *rows) *bytes.Reader {
	t.Helper()
	s := k.newWithPairs(t, r.Keys, r.Vals)
	var b bytes.Buffer
	n, err := s.Save(ctx(), &b)
	must(t, err)
	if n != len(r.Keys) {
		t.Fatalf("Save wrote %d of %d pairs", n, len(r.Keys))
	}
	return bytes.NewReader(b.Bytes())
}

// A saved structure must load on any device, into a structure that already has pairs. Saved there
// and loaded on the original device, it must be unchanged.
func (k kind[S]) saveAndLoad(t testing.TB, s S) {
	r := k.batch(rng(), k.scale.Rows(), k.reservedKeys()...)
	k.fill(t, s, r.Keys, r.Vals)
	if k.multi { // so that most keys have several values
		k.fill(t, s, r.Keys[:len(r.Keys)/2], r.Vals[len(r.Vals)/2:])
	}
	want := k.content(t, s)
	var file bytes.Buffer
	for range 2 { // two tables in one stream
		n, err := s.Save(ctx(), &file)
		must(t, err)
		if n != want.pairs() {
			t.Fatalf("Save wrote %d pairs of %d", n, want.pairs())
		}
	}
	to := k.newStructure(t, devicetest.OpenCPU(t, 2))
	k.load(t, to, &file, want)
	k.checkContent(t, to, want)
	var back bytes.Buffer
	_, err := to.Save(ctx(), &back)
	must(t, err)
	must(t, s.Clear(ctx()))
	k.load(t, s, &file, want) // the second table
	if file.Len() != 0 {
		t.Errorf("Load left %d bytes of what Save wrote", file.Len())
	}
	k.checkContent(t, s, want)
	must(t, s.Clear(ctx()))
	k.load(t, s, &back, want)
	k.checkContent(t, s, want)
	k.loadIntoPresent(t, s, want)
}

func (k kind[S]) load(t testing.TB, s S, from io.Reader, want values) {
	t.Helper()
	n, err := s.Load(ctx(), from)
	must(t, err)
	if n != want.pairs() {
		t.Fatalf("Load read %d pairs of %d", n, want.pairs())
	}
}

// loadIntoPresent requires Load to treat present keys as Put does.
func (k kind[S]) loadIntoPresent(t testing.TB, s S, want values) {
	var present uint64
	for key := range want {
		present = key
		break
	}
	more := k.batch(rng(), 1, present)
	k.load(t, s, k.saved(t, more), values{present: more.Vals})
	if k.multi {
		want[present] = append(want[present], more.Vals...)
	} else {
		want[present] = more.Vals
	}
	k.checkContent(t, s, want)
}

// Load must reject a stream that is damaged anywhere, truncated, or of other types. Pairs before
// the damage stay.
func (k kind[S]) loadRefuses(t testing.TB, s S) {
	r := k.batch(rng(), 5)
	file, err := io.ReadAll(k.saved(t, r))
	must(t, err)
	refused := func(desc string, at int, b []byte) {
		t.Helper()
		n, err := s.Load(ctx(), bytes.NewReader(b))
		if !errors.Is(err, weft.ErrFormat) {
			t.Fatalf("Load of a stream %s byte %d of %d: %v, want ErrFormat", desc, at, len(file), err)
		}
		if n != s.Len() || n > len(r.Keys) {
			t.Fatalf("Load of a stream %s byte %d of %d: %d pairs, Len = %d", desc, at, len(file), n, s.Len())
		}
		must(t, s.Clear(ctx()))
	}
	for at := range file {
		broken := slices.Clone(file)
		broken[at] ^= 1 << (at % 8)
		refused("damaged at", at, broken)
		refused("cut at", at, file[:at])
	}
	must(t, s.Sync(ctx()))
	_, err = s.Load(ctx(), io.MultiReader(bytes.NewReader(file[:len(file)/2]), failing{}))
	if !errors.Is(err, errFailing) {
		t.Errorf("Load from a reader that fails: %v", err)
	}
	must(t, s.Clear(ctx()))
	k.load(t, s, bytes.NewReader(file), values{0: r.Vals})
	if s.Len() != len(r.Keys) {
		t.Errorf("after streams that were refused a good one gives %d pairs", s.Len())
	}
}

var errFailing = errors.New("this one fails")

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errFailing }
func (failing) Write([]byte) (int, error) { return 0, errFailing }

// limited is a writer that fails after the given number of bytes.
type limited struct{ left int }

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errFailing
	}
	return len(b), nil
}

// Save must return the error of its writer at each point of the stream.
func (k kind[S]) saveFails(t testing.TB, s S) {
	r := k.batch(rng(), 40)
	k.fill(t, s, r.Keys, r.Vals)
	var whole bytes.Buffer // from s, because another table may save its pairs in another order
	_, err := s.Save(ctx(), &whole)
	must(t, err)
	size := whole.Len()
	for left := 0; left < size; left += 1 + size/40 {
		if _, err := s.Save(ctx(), &limited{left}); !errors.Is(err, errFailing) {
			t.Fatalf("Save to a writer that takes %d of %d bytes: %v", left, size, err)
		}
	}
	if _, err := s.Save(ctx(), &limited{size}); err != nil {
		t.Errorf("Save to a writer that takes all %d bytes: %v", size, err)
	}
	s.Clear(ctx()) // would wait if a lock were held
}

// A copy must hold the same pairs, and be independent.
func (k kind[S]) copies(t testing.TB, s S) {
	r := k.batch(rng(), k.scale.Rows())
	k.fill(t, s, r.Keys, r.Vals)
	if k.multi {
		k.fill(t, s, r.Keys[:50], r.Vals[50:100])
	}
	want := k.content(t, s)
	for _, dev := range []device.Device{k.dev, devicetest.OpenCPU(t, 2)} {
		to, ok, err := k.copyTo(s, ctx(), dev)
		must(t, err)
		if !ok {
			return
		}
		k.checkContent(t, to, want)
		check(t, to)
		must(t, to.Clear(ctx()))
		k.checkContent(t, s, want)
		must(t, to.Close())
	}
	for _, call := range []func() error{
		func() error { _, _, err := k.copyTo(s, expired(), k.dev); return err },
		func() error {
			_, _, err := k.copyTo(s, &countdown{ctx(), newCount(3)}, k.dev)
			return err
		},
	} {
		if err := call(); err == nil {
			t.Error("CopyTo with a context that ends: no error")
		}
	}
	k.checkContent(t, s, want)
}

// Compact must have no visible effect, whatever was deleted before.
func (k kind[S]) compact(t testing.TB, s S) {
	must(t, s.Compact(ctx()))
	r := k.batch(rng(), k.scale.Rows())
	k.fill(t, s, r.Keys, r.Vals)
	for _, left := range []int{len(r.Keys) / 2, 3, 0} {
		_, err := k.remove(ctx(), s, r.Keys[left:], nil)
		must(t, err)
		want := k.content(t, s)
		must(t, s.Compact(ctx()))
		k.checkContent(t, s, want)
		check(t, s)
		if want.pairs() != left {
			t.Fatalf("%d pairs are left, want %d", want.pairs(), left)
		}
	}
	k.fill(t, s, r.Keys, r.Vals)
}
