// Package devicetest helps to test what uses devices, and devices themselves.
//
// [Open] gives a test the device that WEFT_DEVICE names, wrapped by [Checked],
// which watches how it is used: what is not freed by the end of the test fails
// the test with the place where it was allocated, as do double frees, uses
// after close, and copies and fills outside what is allocated or mapped. Fresh
// device memory is filled with a pattern, also where a range grows, so that
// nothing relies on zeros.
// [FailAfter] and [FailNext] make operations fail, to test error paths.
//
// [Omit] leaves out single calls that order streams or wait for them, to see
// whether tests notice; [ListCalls] finds those calls in the source.
//
// [Conformance] checks that an implementation of [device.Device] keeps the
// promises of the interface.
//
// # Caveats
//
//   - Kernels and Go code that work on device memory are not watched, only
//     operations of the device and its streams.
//   - Package device/cuda is imported, through auto: tests inside that package
//     or inside auto must be of an external test package.
package devicetest

import "github.com/weftgo/weft/device"

var (
	_ device.Device       = (*checked)(nil)
	_ device.Host         = (*checkedHost)(nil)
	_ device.StreamDriver = (*checkedStream)(nil)
	_ device.EventDriver  = (*checkedEvent)(nil)
	_ device.Range        = (*checkedRange)(nil)

	_ device.Device       = (*omitting)(nil)
	_ device.Host         = (*omittingHost)(nil)
	_ device.StreamDriver = (*omittingStream)(nil)
	_ device.EventDriver  = (*omittingEvent)(nil)
)
