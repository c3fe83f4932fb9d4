package progress

import "context"

// Interruptible runs f and waits until f returns or ctx ends. If ctx ends first, f continues, and
// what it opens stays open until the program ends. Use it for calls that may take long and cannot
// be canceled: GPU drivers, named pipes.
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
