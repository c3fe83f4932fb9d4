package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftgo/weft/internal/op"
)

// counted is a call. Its answer must be its question plus one.
type counted struct{ question, answer int }

// served is a queue with batches of a given duration. It records the batches run.
type served struct {
	*Queue[counted]
	took time.Duration
	mu   sync.Mutex
	ran  [][]int
}

func serve(opts Options, took time.Duration) *served {
	s := &served{took: took}
	s.Queue = New(opts, func(calls []*counted) {
		time.Sleep(s.took)
		var questions []int
		for _, c := range calls {
			questions = append(questions, c.question)
			c.answer = c.question + 1
		}
		s.mu.Lock()
		s.ran = append(s.ran, questions)
		s.mu.Unlock()
	})
	return s
}

// Calls that come and go while a batch runs must not use memory, even if one of them stays.
func TestWithdrawnCallsTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 1000, Waiting: 10}, time.Second)
		first := s.ask(t.Context(), 0, false)
		stays := s.ask(t.Context(), 1, false)
		for range 10_000 {
			ctx, cancel := context.WithCancel(t.Context())
			gone := s.ask(ctx, 2, false)
			cancel()
			wantError(t, gone, context.Canceled)
		}
		last := s.ask(t.Context(), 3, false)
		slots := 0
		s.Queue.mu.Lock()
		for _, b := range s.batches {
			slots += cap(b.calls)
		}
		s.Queue.mu.Unlock()
		if slots > 100 {
			t.Errorf("room for %d calls is taken by two", slots)
		}
		for _, answered := range []<-chan error{first, stays, last} {
			wantError(t, answered, nil)
		}
		s.Close()
		s.want(t, []int{0}, []int{1, 3})
	})
}

// ask makes a call in its own goroutine. It waits until the call is in the queue or waits outside.
func (s *served) ask(ctx context.Context, question int, leave bool) <-chan error {
	answered := make(chan error, 1)
	go func() {
		c := &counted{question: question}
		err := s.Do(ctx, c, leave)
		if err == nil && c.answer != question+1 {
			err = fmt.Errorf("%d was answered with %d", question, c.answer)
		}
		answered <- err
	}()
	synctest.Wait()
	return answered
}

func (s *served) want(t *testing.T, batches ...[]int) {
	t.Helper()
	if !slices.EqualFunc(s.ran, batches, slices.Equal) {
		t.Errorf("batches %v have run, want %v", s.ran, batches)
	}
}

func wantError(t *testing.T, answered <-chan error, want error) {
	t.Helper()
	if err := <-answered; !errors.Is(err, want) {
		t.Errorf("a call returned %v, want %v", err, want)
	}
}

const ms = time.Millisecond

// Without a delay, a single call must begin at once. Calls that arrive while it runs must form the
// next batch, in order of arrival.
func TestCallsGatherWhileABatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 3, Waiting: 100}, 10*ms)
		start := time.Now()
		for i := range 6 {
			s.ask(t.Context(), i, false)
		}
		last := s.ask(t.Context(), 6, false)
		wantError(t, last, nil)
		if took := time.Since(start); took != 30*ms {
			t.Errorf("the last of seven calls took %v, want three batches of 10 ms", took)
		}
		s.Close()
		s.want(t, []int{0}, []int{1, 2, 3}, []int{4, 5, 6})
	})
}

// With a delay, the first call must wait until the delay has passed or the batch is full.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 3, Delay: 50 * ms, Waiting: 100}, 0)
		start := time.Now()
		first := s.ask(t.Context(), 0, false)
		time.Sleep(40 * ms)
		s.ask(t.Context(), 1, false)
		wantError(t, first, nil)
		if took := time.Since(start); took != 50*ms {
			t.Errorf("a batch that was not full began after %v, want 50 ms", took)
		}
		start = time.Now()
		for i := 2; i < 4; i++ {
			s.ask(t.Context(), i, false)
		}
		wantError(t, s.ask(t.Context(), 4, false), nil)
		if took := time.Since(start); took != 0 {
			t.Errorf("a full batch began after %v, want at once", took)
		}
		s.Close()
		s.want(t, []int{0, 1}, []int{2, 3, 4})
	})
}

// When a context ends, calls that have not begun must be withdrawn. Of the calls that have begun,
// lookups must return and changes must wait for their answers.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 10, Waiting: 3}, 100*ms)
		ended, end := context.WithCancel(t.Context())
		defer end()
		change := s.ask(ended, 0, false) // this call begins
		queued := s.ask(ended, 1, false)
		stays := s.ask(t.Context(), 2, false)
		outside := s.ask(ended, 3, false) // this call waits outside
		end()
		synctest.Wait()
		start := time.Now()
		wantError(t, queued, context.Canceled)
		wantError(t, outside, context.Canceled)
		wantError(t, s.ask(ended, 4, false), context.Canceled)
		if took := time.Since(start); took != 0 {
			t.Errorf("calls whose context had ended took %v", took)
		}
		wantError(t, change, nil)
		wantError(t, stays, nil)

		left, leave := context.WithCancel(t.Context())
		lookup := s.ask(left, 5, true)
		leave()
		synctest.Wait()
		wantError(t, lookup, context.Canceled)
		time.Sleep(100 * ms)
		for i := 6; i < 9; i++ { // withdrawn and finished calls have left the queue
			s.ask(t.Context(), i, false)
		}
		s.Close()
		s.want(t, []int{0}, []int{2}, []int{5}, []int{6}, []int{7, 8})
	})
}

// The queue must hold at most Waiting calls. Further calls must enter in order of arrival.
func TestBoundedAndFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 2, Waiting: 2}, 10*ms)
		var last <-chan error
		for i := range 7 {
			last = s.ask(t.Context(), i, false)
		}
		s.Queue.mu.Lock()
		if s.inside != 2 || len(s.outside) != 5 {
			t.Errorf("%d calls are in a queue of 2, and %d outside", s.inside, len(s.outside))
		}
		s.Queue.mu.Unlock()
		wantError(t, last, nil)
		s.Close()
		if order := slices.Concat(s.ran...); !slices.IsSorted(order) || len(order) != 7 {
			t.Errorf("calls ran as %v", s.ran)
		}
	})
}

// Close must run the calls in the queue at once. It must reject new calls and calls that wait
// outside.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(Options{Batch: 10, Delay: time.Hour, Waiting: 2}, 10*ms)
		a, b := s.ask(t.Context(), 0, false), s.ask(t.Context(), 1, false)
		outside := s.ask(t.Context(), 2, false)
		start := time.Now()
		s.Close()
		s.Close()
		if took := time.Since(start); took != 10*ms {
			t.Errorf("closing took %v, want one batch", took)
		}
		wantError(t, a, nil)
		wantError(t, b, nil)
		wantError(t, outside, op.ErrClosed)
		wantError(t, s.ask(t.Context(), 3, false), op.ErrClosed)
		s.want(t, []int{0, 1})
	})
}

// Many goroutines make calls, and some contexts end. Every call that is not withdrawn must be
// answered once.
func TestManyCallers(t *testing.T) {
	var mu sync.Mutex
	answered := map[int]int{}
	q := New(Options{Batch: 7, Waiting: 20}, func(calls []*counted) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range calls {
			answered[c.question]++
			c.answer = c.question + 1
		}
	})
	var wg sync.WaitGroup
	var taken sync.Map
	for g := range 50 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range 100 {
				ctx, end := context.WithCancel(context.Background())
				if rng.IntN(3) == 0 {
					go end()
				}
				c := &counted{question: g*100 + i}
				switch err := q.Do(ctx, c, false); {
				case err != nil:
					taken.Store(c.question, true)
				case c.answer != c.question+1:
					t.Errorf("%d was answered with %d", c.question, c.answer)
				}
				end()
			}
		})
	}
	wg.Wait()
	q.Close()
	for i := range 5000 {
		want := 1
		if _, ok := taken.Load(i); ok {
			want = 0
		}
		if answered[i] != want {
			t.Errorf("call %d ran %d times, want %d", i, answered[i], want)
		}
	}
	if q.inside != 0 || len(q.outside) != 0 {
		t.Errorf("%d calls are left inside, %d outside", q.inside, len(q.outside))
	}
}
