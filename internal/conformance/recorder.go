package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a test that records failures and does not fail the enclosing test. It inherits all
// other methods from the enclosing test.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	text    strings.Builder
	cleanup []func()
}

// Report runs a test inside another test, and returns whether the inner test failed and its log.
// The outer test does not fail.
func Report(t testing.TB, test func(t testing.TB)) (failed bool, log string) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // because FailNow ends the goroutine
		defer close(done)
		defer r.runCleanups()
		defer r.recordPanic()
		test(r)
	}()
	<-done
	return r.result()
}

func (r *recorder) recordPanic() {
	if v := recover(); v != nil {
		r.Errorf("panic: %v", v)
	}
}

func (r *recorder) runCleanups() {
	for i := len(r.cleanup) - 1; i >= 0; i-- {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer r.recordPanic()
			r.cleanup[i]()
		}()
		<-done
	}
}

func (r *recorder) result() (failed bool, log string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed, r.text.String()
}

func (r *recorder) record(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.text.WriteString(strings.TrimSuffix(text, "\n") + "\n")
}

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(f func())                  { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Log(args ...any)                   { r.record(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.record(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.record(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.record(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.record(true, "Fail") }
func (r *recorder) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

func (r *recorder) Failed() bool {
	failed, _ := r.result()
	return failed
}
