package cpu_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// goroutines returns the profile of all goroutines, with their labels.
func goroutines(t *testing.T) string {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// own returns the part of a profile for the goroutine that took it. Other parts may show helpers of
// an earlier call that are still ending.
func own(profile string) string {
	for _, stack := range strings.Split(profile, "\n\n") {
		if strings.Contains(stack, "cpu_test.goroutines+") {
			return stack
		}
	}
	return profile
}

// During a call, the caller and its workers have the labels of weft and of the context. After the
// call, the caller has only those of the context.
func TestLabels(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		dev, err := cpu.Open(&cpu.Options{Workers: 4, Labels: wanted})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		m, err := linear.New[uint64, uint64](dev, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		keys := make([]uint64, 1<<17)
		for i := range keys {
			keys[i] = uint64(i)
		}
		ctx := pprof.WithLabels(t.Context(), pprof.Labels("request", request(wanted)))
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan string)
		go func() {
			for ctx.Err() == nil {
				m.Put(ctx, keys, keys)
				m.Get(ctx, keys, keys, nil)
			}
			ended <- own(goroutines(t))
		}()
		found := watch(t, wanted)
		stop()
		after := <-ended
		if found != wanted || strings.Contains(after, "weft.") || strings.Contains(after, request(wanted)) != wanted {
			t.Errorf("labels wanted: %v; found: %v, and then\n%s", wanted, found, after)
		}
	}
}

// request returns a different label for each of the two rounds, because helpers of the first round
// may still be ending in the second.
func request(wanted bool) string {
	return fmt.Sprintf("labels %v", wanted)
}

// watch reports whether a worker has both kinds of labels. If none is wanted, it looks only
// briefly.
func watch(t *testing.T, wanted bool) bool {
	label := regexp.MustCompile(`# labels: \{"request":"` + request(wanted) + `", "weft\.operation":"(Get|Put)", "weft\.structure":"linear"\}\n((?:#.*\n)+)`)
	seen := map[string]bool{}
	wait := 20 * time.Second
	if !wanted {
		wait = 100 * time.Millisecond
	}
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		for _, m := range label.FindAllStringSubmatch(goroutines(t), -1) {
			if strings.Contains(m[2], "spawn") {
				seen[m[1]] = true
			}
		}
		if len(seen) == 2 {
			return true
		}
	}
	return false
}
