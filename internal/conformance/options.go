package conformance

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
)

// Sizes holds the options that all structures have.
type Sizes struct {
	Capacity int
	MaxLoad  float64
	Fixed    bool
}

// invalidSizes maps a part of the error message to sizes that no structure accepts.
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

// RefusesOptions requires constructors to reject invalid options: those in cases, and the sizes
// that no structure accepts. The function of converts these sizes to options. The keys of cases are
// parts of the error messages. made returns the errors of constructors, by the kind of structure.
func RefusesOptions[O any](t *testing.T, of func(Sizes) O, cases map[string]O, made func(*O) map[string]error) {
	for want, sizes := range invalidSizes {
		cases[want] = of(sizes)
	}
	for want, opts := range cases {
		t.Run(want, func(t *testing.T) { WantRefused(t, want, made(&opts)) })
	}
}

// LogsMessages requires a map to log the given messages. The map grows, and then loses half of its
// keys. open opens it with the given logger.
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
