package weft

import "github.com/weftgo/weft/internal/op"

// PartialError is the error of a call that did not do everything. Every structure returns it,
// wrapped so that errors.As finds it. It divides the batch into three sets of operations:
//
//	done      tried, and not in Rows
//	failed    tried, overflowed, and listed in Rows
//	untried   all from index Done on
//
// To lose nothing, a caller makes room, runs the operations in Rows again, and then runs the batch
// from Done on: see the example.
//
// Outputs in host memory are zero for operations that failed or were not tried. GetOrPut is the
// exception: vals keeps the caller's values, and loaded is false.
//
// If an On method returns nil, it has submitted the whole batch. The next Sync reports the
// operations that overflow. In its error, all changes submitted since the previous Sync count as
// one batch, in the order of the calls. Done is the number of their operations. The rows of the
// second call are offset by the number of operations of the first, and so on. A call that returns
// an error is not part of that batch, because its own PartialError lists which operations failed
// and which were not submitted. Rows lies in host memory, so no copy from the device is needed. For
// an operation that overflowed, ok and loaded are false, and a column that is both input and output
// keeps its value. If the call itself returns an error, outputs from Done on are undefined.
//
// If a device fails for a reason other than lack of memory, more operations may have been done than
// Done says.
type PartialError struct {
	// Done is the number of operations tried, from the start of the batch.
	Done int
	// Failed is the number of tried operations that overflowed. If a context ended or the device
	// was lost before they could run again in a larger structure, Err does not wrap ErrFull.
	Failed int
	// Rows holds the indexes of the failed operations in the caller's batch, ascending. Its length
	// is Failed, except in an error of Sync after kernels of the caller changed a table through a
	// Ref. The failed insertions of such kernels have no rows.
	Rows []int
	// Err is the cause.
	Err error
}

// Error returns a message that says how far the call came and why it stopped.
func (e *PartialError) Error() string { return (*op.PartialError)(e).Error() }

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }
