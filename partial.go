package weft

import "github.com/weftgo/weft/internal/op"

// PartialError is the error of a call that did not do everything. Every structure returns it, in a
// chain that errors.As searches, for a batch of the host or of the device. It divides the batch in
// three:
//
//	done      tried, and not in Rows
//	failed    Rows: tried, and overflowed
//	untried   from Done on
//
// To lose nothing, a caller makes room, runs the operations in Rows again, and then runs the batch
// from Done on: see the example.
//
// Outputs of the host. Those of operations that failed or were not tried are zero. GetOrPut is
// the exception: vals keeps what the caller passed, and loaded is false.
//
// Batches on the device. A call that returns nil has submitted the whole batch. Its operations that
// overflow are in the error of the next Sync. In that error, all changes submitted since the Sync
// before count as one batch, in the order of the calls. Done is the number of their operations. A
// row of the second call is offset by the number of operations of the first. A call that returns an
// error is not part of that batch, because its own PartialError lists which of its operations
// failed and which were not submitted. The rows are on the host; no copy from the device is needed.
// An operation that overflowed leaves ok and loaded false, and leaves its value where values are in
// and out. After an error of the call itself, outputs from Done on are undefined.
//
// If a device fails for other reasons than lack of memory, more may have been done than Done says.
type PartialError struct {
	// Done is the number of operations tried, from the start of the batch.
	Done int
	// Failed is the number of these that overflowed. If a context ended or the device was lost,
	// some of them may have been due to run again in a larger structure; then Err does not wrap
	// ErrFull.
	Failed int
	// Rows holds the operations that failed, as ascending indexes into the caller's batch. Its
	// length is Failed, except in the error of a Sync after kernels of the caller that changed a
	// table through a Ref. Failed insertions of such kernels have no rows.
	Rows []int
	// Err is the cause.
	Err error
}

// Error describes how far the call came and why it stopped.
func (e *PartialError) Error() string { return (*op.PartialError)(e).Error() }

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }
