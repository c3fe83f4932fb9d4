package flags

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/hostmem"
)

// Sizes may have units. Other text is an error.
func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "123": 123, "7B": 7, "64MiB": 64 << 20, "2KiB": 2048, "3GiB": 3 << 30, "64MB": 64e6, "2kB": 2000, "1GB": 1e9, "8388607TiB": 8388607 << 40} {
		var s Bytes
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "64mB", "64M", "9223373TB", "1 GiB",
		"8388608TiB", "99999999999999999999", "1BB"} {
		if err := new(Bytes).Set(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

// The default of --memory is half of the machine's memory, but at least the minimum.
func TestDefaultMemory(t *testing.T) {
	for _, args := range [][]string{{}, {"--memory", "0"}, {"--memory", "1GiB"}} {
		var f Memory
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Add(set)
		if err := errors.Join(set.Parse(args), f.Check("count")); err != nil {
			t.Fatal(err)
		}
		want := max(hostmem.Limit()/2, group.MinMemory)
		if len(args) > 0 {
			want = map[string]int64{"0": 0, "1GiB": 1 << 30}[args[1]]
		}
		if int64(f.Limit) != want {
			t.Errorf("%v: %d bytes, want %d", args, f.Limit, want)
		}
		if text := set.FlagUsages(); strings.Contains(text, "default -1") ||
			strings.Contains(text, "(default ") {
			t.Errorf("help shows a number of this machine: %s", text)
		}
	}
}

// Errors of packages mention flags, not options.
func TestNamed(t *testing.T) {
	cause := errors.New("Options.Memory is 1; set Memory higher, set TempDir to another directory")
	err := Named(cause)
	if s := err.Error(); s != "--memory is 1; set --memory higher, set --temp-dir to another "+
		"directory" || !errors.Is(err, cause) {
		t.Error(s)
	}
}

// Invalid aggregates are usage errors.
func TestAggregates(t *testing.T) {
	for _, agg := range []string{"", "rows", "sum", "sum:", "median:x", "count:"} {
		f := Group{Aggs: []string{"count", agg}}
		if err := f.Check("group"); !errors.As(err, new(UsageError)) || !strings.Contains(err.Error(), "group --agg: ") {
			t.Errorf("%q: %v", agg, err)
		}
	}
	f := Group{Aggs: []string{"count", "count:a", "mean:b:c"}}
	if err := f.Check("group"); err != nil || f.aggs[2].column != "b:c" {
		t.Error(f.aggs, err)
	}
}
