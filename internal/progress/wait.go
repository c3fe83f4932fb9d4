package progress

import "context"

// Interruptible runs f and waits for it, or until ctx ends; f goes on then,
// and what it opens is left to the end of the program. For calls that may take
// long and cannot be cancelled: GPU drivers, named pipes.
func Interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
