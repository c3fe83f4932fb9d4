// Package conformance holds the tests that every structure of a kind must
// pass, on every device: one suite for maps, one for sets, one for multimaps. The
// tests of a structure call [Map], [Set] and [MultiMap] with a constructor.
//
// The suites ask for what package weft promises and nothing else; what is special
// to a structure is tested in its own package. What those tests would repeat lies
// here, too: failures of the device by [NewFails] and [OperationsFail], calls that
// are cut short by [CutShort], histories by [AnyHistory], statistics by
// [CompactDropsDead] and [LookupsGrowNothing], keys made to collide by
// [Colliding], constants of kernels by [Twins], smoke tests and benchmarks.
//
// Suites and smoke tests are not generic, since each package would compile them for each of its
// pairs of types: they hold keys and values as numbers of 64 bits, and call structures through
// adapters (erased.go, adapters.go). Only calls.go is compiled for each pair.
package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Scale is how much work a suite may do: large on a device that is fast, small
// on one that is interpreted.
type Scale int

// Rows is the size of a suite's large batches.
func (s Scale) Rows() int { return int(s) }

// Scales for devices.
const (
	Fast Scale = 20_000 // a CPU or a GPU
	Slow Scale = 600    // an interpreter
)

// Case is one test of a suite for structures of type S.
type Case[S Structure] struct {
	Name string
	test func(t testing.TB, empty S)
}

// run runs a suite but for some cases.
func run[S Structure](t *testing.T, at place[S], cases []Case[S], without ...string) {
	for _, c := range cases {
		if !slices.Contains(without, c.Name) {
			t.Run(c.Name, func(t *testing.T) { c.run(t, at) })
		}
	}
}

// HostCases are about what the host does with contexts that end, with calls from inside of
// loops, and with files, in many tries: a structure has them once on each kind of device, and
// leaves them out for other widths, options and schedules of kernels.
var HostCases = []string{"Cancelled", "Partial", "InsideLoops", "AssignCutShort", "LoadRefuses", "SaveFails"}

func (c Case[S]) run(t testing.TB, at place[S]) {
	s := at.open(t, at.dev)
	defer func() {
		check(t, s)
		must(t, s.Close())
	}()
	c.test(t, s)
}

// place is where a suite makes structures, and how.
type place[S Structure] struct {
	types
	dev   device.Device
	scale Scale
	open  Maker[S]
}

// asked are cases for structures that have to be erased first.
func asked[S, E Structure](cases []Case[E], erase func(S) E) (out []Case[S]) {
	for _, c := range cases {
		out = append(out, Case[S]{c.Name, func(t testing.TB, s S) { c.test(t, erase(s)) }})
	}
	return out
}

// another is one more empty structure on a device, which is checked and closed
// with the test.
func (p place[S]) another(t testing.TB, dev device.Device) S {
	s := p.open(t, dev)
	t.Cleanup(func() {
		check(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// Report runs a case as a test would and tells whether it failed, and how.
// It serves tests of the suites: those that hand a broken structure to a suite
// and want it to notice.
func (c Case[S]) Report(t testing.TB, dev device.Device, open Maker[S]) (failed bool, log string) {
	return Report(t, func(t testing.TB) { c.run(t, place[S]{dev: dev, open: open}) })
}

// Check is implemented by structures whose tests know more of their invariants
// than their own method Check; the suites call both after every test.
type Check interface{ CheckInvariants() error }

func check(t testing.TB, s Structure) {
	t.Helper()
	if err := s.Check(ctx()); err != nil && !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Check: %v", err)
	}
	if c, ok := s.(Check); ok {
		if err := c.CheckInvariants(); err != nil {
			t.Errorf("invariants: %v", err)
		}
	}
}

// rng makes up the same batches each time.
func rng() *rand.Rand { return rand.New(rand.NewPCG(13, 17)) }

func ctx() context.Context { return context.Background() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustPanic fails unless f panics with a message.
func mustPanic(t testing.TB, what string, f func()) {
	t.Helper()
	defer func() {
		if v := recover(); v == nil {
			t.Errorf("%s: no panic", what)
		} else if _, ok := v.(string); !ok {
			t.Errorf("%s: panic with %T %v, want a message", what, v, v)
		}
	}()
	f()
}

// expired is a context that has ended.
func expired() context.Context {
	c, cancel := context.WithCancel(context.Background())
	cancel()
	return c
}
