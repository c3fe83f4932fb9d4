package linear_test

import (
	"context"
	"testing"
)

// cancelled is a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
