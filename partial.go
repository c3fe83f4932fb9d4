package weft

import "github.com/weftgo/weft/internal/op"

// PartialError is the error of a call that did not do everything. errors.As finds it in what
// every structure returns for a batch, of the host or on the device. It divides the batch in three:
//
//	done      tried, and not in Rows
//	failed    Rows: tried, and found no room
//	untried   from Done on
//
// Nothing is lost by a caller who makes room, runs the operations in Rows again, and then the batch
// from Done on: see the example.
//
// Outputs of the host. Those of operations that failed or were not tried are zero. GetOrPut is
// the exception: there the values keep what the caller brought, and loaded is false.
//
// Batches on the device. A call that returns nil has submitted the whole batch. Its operations
// without room are in the error of the next Sync. There, all changes submitted since the Sync before
// count as one batch, in the order of the calls: Done is the number of their operations, and a row of the
// second call is as much larger as the first has operations. A call that returns an error is no
// part of it, because its own PartialError says which of its operations failed and which were not
// submitted. The rows are on the host; nothing needs to be fetched. An operation that found no room
// leaves ok and loaded false, and the value that it brought where values are in and out. After
// an error of the call itself, outputs from Done on are undefined.
//
// Where a device fails for other reasons than lack of memory, more may have been done than Done says.
type PartialError struct {
	// Done operations were tried, the first of the batch.
	Done int
	// Failed of these found no room. Those of a call whose context ended, or whose device was lost,
	// may have been about to run again in more room: then Err does not wrap ErrFull.
	Failed int
	// Rows are the operations that failed, as ascending indexes into the caller's batch. They are as
	// many as Failed, except in the error of a Sync after kernels of the caller's own, which
	// change a table by a Ref: the insertions of these that failed have no rows.
	Rows []int
	// Err is the cause.
	Err error
}

// Error says how far the call came, and why no further.
func (e *PartialError) Error() string { return (*op.PartialError)(e).Error() }

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Err }
