// Package conformance holds the tests that all structures of a kind must pass on every device. It
// has one suite each for maps, ordered maps, sets and multimaps. The tests of a structure call
// [Map], [OrderedMap], [Set] or [MultiMap] with a constructor.
//
// The suites test only what package weft promises. The package of a structure tests the structure's
// own properties. This package has helpers for such tests: device failures in [NewFails] and
// [OperationsFail], interrupted calls in [InterruptMaintenance], histories in [RandomHistory],
// statistics in [CompactDropsDead] and [LookupsDoNotGrow], colliding keys in [Colliding], constants
// of kernels in [CompareConstants], smoke tests and benchmarks.
//
// Suites and smoke tests are not generic, because each package would compile them for each of its
// pairs of types. They represent keys and values as 64-bit numbers and call structures through
// adapters (erased.go, adapters.go). Only calls.go is compiled for each pair of types.
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

// Scale is the amount of work of a suite. It is large for a fast device and small for an
// interpreter.
type Scale int

// Rows returns the number of rows in the large batches of a suite.
func (s Scale) Rows() int { return int(s) }

// Scales for the kinds of devices.
const (
	Fast Scale = 20_000 // a CPU or a GPU
	Slow Scale = 600    // an interpreter
)

// Case is one test of a suite for structures of type S.
type Case[S Structure] struct {
	Name string
	test func(t testing.TB, empty S)
}

// run runs all cases of a suite except those with the given names.
func run[S Structure](t *testing.T, p target[S], cases []Case[S], without ...string) {
	for _, c := range cases {
		if !slices.Contains(without, c.Name) {
			t.Run(c.Name, func(t *testing.T) { c.run(t, p) })
		}
	}
}

// HostCases are the names of cases that mostly test host code: contexts that end, calls inside
// loops, and files. They repeat many attempts. So a structure's tests run them once per kind of
// device, and skip them for other widths, options and kernel schedules.
var HostCases = []string{"Cancelled", "Partial", "InsideLoops", "AssignCutShort", "LoadRefuses", "SaveFails"}

func (c Case[S]) run(t testing.TB, p target[S]) {
	s := p.open(t, p.dev)
	defer func() {
		check(t, s)
		must(t, s.Close())
	}()
	c.test(t, s)
}

// target specifies the device, the scale and the constructor with which a suite runs.
type target[S Structure] struct {
	types
	dev   device.Device
	scale Scale
	open  Maker[S]
}

// typedCases converts cases for structures of type E to cases for structures of type S.
func typedCases[S, E Structure](cases []Case[E], erase func(S) E) (out []Case[S]) {
	for _, c := range cases {
		out = append(out, Case[S]{c.Name, func(t testing.TB, s S) { c.test(t, erase(s)) }})
	}
	return out
}

// newStructure makes another empty structure. At the end of the test, the structure is checked and
// closed.
func (p target[S]) newStructure(t testing.TB, dev device.Device) S {
	s := p.open(t, dev)
	t.Cleanup(func() {
		check(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// Report runs a case without failing t, and returns whether the case failed and its log. The tests
// of this package run cases on broken structures and require a failure.
func (c Case[S]) Report(t testing.TB, dev device.Device, open Maker[S]) (failed bool, log string) {
	return Report(t, func(t testing.TB) { c.run(t, target[S]{dev: dev, open: open}) })
}

// InvariantChecker is implemented by structures with invariants that their method Check does not
// test. The suites call both methods after every test.
type InvariantChecker interface{ CheckInvariants() error }

func check(t testing.TB, s Structure) {
	t.Helper()
	if err := s.Check(ctx()); err != nil && !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Check: %v", err)
	}
	if c, ok := s.(InvariantChecker); ok {
		if err := c.CheckInvariants(); err != nil {
			t.Errorf("invariants: %v", err)
		}
	}
}

func rng() *rand.Rand { return rand.New(rand.NewPCG(13, 17)) }

func ctx() context.Context { return context.Background() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustPanic fails the test unless f panics with a string.
func mustPanic(t testing.TB, desc string, f func()) {
	t.Helper()
	defer func() {
		if v := recover(); v == nil {
			t.Errorf("%s: no panic", desc)
		} else if _, ok := v.(string); !ok {
			t.Errorf("%s: panic with %T %v, want a message", desc, v, v)
		}
	}()
	f()
}

func expired() context.Context {
	c, cancel := context.WithCancel(context.Background())
	cancel()
	return c
}
