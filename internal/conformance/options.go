package conformance

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
)

// Sizes are the options that all structures have.
type Sizes struct {
	Capacity int
	MaxLoad  float64
	Fixed    bool
}

// invalidSizes lists sizes that no structure can have, keyed by a part of the error message.
var invalidSizes = map[string]Sizes{
	"Capacity -1":                  {Capacity: -1},
	"Capacity 9223372036854775807": {Capacity: math.MaxInt},
	"GiB":                          {Capacity: 1 << 30, MaxLoad: 1e-3}, // because of the load
	"needs a Capacity":             {Fixed: true},
	"MaxLoad -0.5":                 {MaxLoad: -.5},
	"MaxLoad 1.01":                 {MaxLoad: 1.01},
	"MaxLoad +Inf":                 {MaxLoad: math.Inf(1)},
	"MaxLoad NaN":                  {MaxLoad: math.NaN()},
}

// RefusesOptions requires invalid options to be refused: sizes that no structure can have, and
// cases of the structure itself, keyed by a part of the message. made returns the errors of
// constructors, keyed by what they make.
func RefusesOptions[O any](t *testing.T, of func(Sizes) O, cases map[string]O, made func(*O) map[string]error) {
	for want, sizes := range invalidSizes {
		cases[want] = of(sizes)
	}
	for want, opts := range cases {
		t.Run(want, func(t *testing.T) { WantRefused(t, want, made(&opts)) })
	}
}

// LogsMessages requires a map that grows, and then loses half of its keys, to log certain messages
// to the logger it is opened with.
func LogsMessages(t testing.TB, open func(*slog.Logger) AnyMap[uint64, uint64], want ...string) {
	t.Helper()
	var log bytes.Buffer
	m := open(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	keys := Sequence[uint64](0, 1000)
	n, err := m.Put(ctx(), keys, keys)
	WantCount(t, "Put", n, 1000, err)
	n, err = m.Delete(ctx(), keys[:500], nil)
	WantCount(t, "Delete", n, 500, err)
	for _, desc := range want {
		if !strings.Contains(log.String(), desc) {
			t.Errorf("the log lacks %q: %q", desc, log.String())
		}
	}
}
