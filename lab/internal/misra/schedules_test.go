package misra

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// subject adapts a set for package dst: it returns flags, no values.
type subject struct {
	*Set
	dev    device.Device
	stream *device.Stream
}

func newSubject(dev device.Device, shape dst.Shape) (dst.Subject[uint32, uint32], error) {
	const maxNodes = 4096
	s, err := New(dev, Options{Buckets: max(shape.Capacity/8, 1), Nodes: maxNodes, Seed: 1})
	if err != nil {
		return nil, err
	}
	stream, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &subject{s, dev, stream}, errors.Join(s.ClearOn(stream), stream.Sync(context.Background()))
}

func (s *subject) Submit(stream *device.Stream, c *dst.Columns[uint32, uint32]) (dst.Returns, error) {
	kinds := c.Kinds
	if kinds.Len() == 0 {
		all := make([]weft.OpKind, c.Keys.Len())
		for i := range all {
			all[i] = c.Kind
		}
		var err error
		if kinds, err = device.Upload(stream, all); err != nil {
			return dst.Returns{}, err
		}
		err = errors.Join(s.ApplyOn(stream, kinds, c.Keys, c.OK), stream.Sync(context.Background()), kinds.Free())
		return dst.Returns{OK: true}, err
	}
	return dst.Returns{OK: true}, s.ApplyOn(stream, kinds, c.Keys, c.OK)
}

func (s *subject) Sync(ctx context.Context) error { return s.dev.Sync(ctx) }

// Len counts the keys in unmarked nodes.
func (s *subject) Len() int {
	n := 0
	_ = s.walk(func(w uint64) {
		if w&mark == 0 {
			n++
		}
	})
	return n
}

// CheckInvariants verifies that lists are sorted and no key is in one twice.
func (s *subject) CheckInvariants() error {
	return s.walk(func(uint64) {})
}

// walk calls visit for the nodes of all lists.
func (s *subject) walk(visit func(w uint64)) error {
	words := make([]uint64, s.words.Len())
	if err := s.stream.CopyOut(context.Background(), device.Bytes(words[:s.opts.Buckets+s.taken]), s.words.Ptr()); err != nil {
		return err
	}
	for head := range words[:s.opts.Buckets] {
		last := int64(-1) // the last unmarked key
		for w := words[head]; nextOf(w) != 0; {
			w = words[nextOf(w)]
			visit(w)
			if w&mark != 0 {
				continue
			}
			if int64(keyOf(w)) <= last {
				return fmt.Errorf("list %d has %#x behind %#x", head, keyOf(w), last)
			}
			last = int64(keyOf(w))
		}
	}
	return nil
}

func (s *subject) Close() error {
	return errors.Join(s.dev.Sync(context.Background()), s.stream.Close(), s.Set.Close())
}

// oneStream returns the shapes in which batches follow each other: the lists do not order changes
// on different streams.
func oneStream() []dst.Shape {
	return slices.DeleteFunc(slices.Clone(dst.Shapes), func(s dst.Shape) bool { return s.Streams > 0 })
}

// Under any schedule of threads in weak memory, some order of a batch's operations explains the
// results. Each insertion and deletion happens exactly once.
func TestSchedules(t *testing.T) {
	dst.Run(t, dst.Config[uint32, uint32]{New: newSubject, Shapes: oneStream(), Arch: 90, Unordered: true})
}

// The kernels of both architectures are the same, so only one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "misra") }

// The schedules detect wrong memory orders and wrong swaps.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const swap = `atom\.release\.gpu\.global\.cas\.b64 (%rd\d+), \[(%rd\d+)\], (%rd\d+), (%rd\d+);`
	for name, m := range map[string]struct{ pattern, with string }{
		"links are followed without acquiring": {`ld\.acquire`, "ld.relaxed"},
		"links are set without releasing":      {`atom\.release`, "atom.relaxed"},
		"a lost swap counts as won":            {swap, "atom.release.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
		"swaps are stores":                     {swap, "st.release.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pattern := regexp.MustCompile(m.pattern)
			f, tried := dst.Find(dst.Config[uint32, uint32]{
				New: newSubject, Unordered: true, NoShrink: true,
				Rewrite: func(file, ptx string) string {
					if !pattern.MatchString(ptx) {
						t.Fatalf("%s has nothing like %s", file, m.pattern)
					}
					return pattern.ReplaceAllString(ptx, m.with)
				},
			})
			if f == nil {
				t.Fatalf("not found by %d schedules", tried)
			}
			t.Logf("found by schedule %d, %d operations: %v", tried, f.Ops, f.Err)
		})
	}
}
