// Package devicetest helps to test users of devices, and devices themselves.
//
// [Open] opens the device that WEFT_DEVICE names, wrapped by [Checked]. The wrapper fails the test
// for each resource that is not freed by the end of the test, and names the calls that allocated
// the resource. It also reports double frees, uses after close, and copies and fills outside
// allocated or mapped memory. It fills new device memory with a pattern, also after a range grows,
// so that no code relies on zeros. [FailAfter] and [FailNext] make operations fail, to test error
// paths.
//
// [Omit] leaves out single calls that order streams or wait for them, to check that tests then
// fail. [ListCalls] finds those calls in the source.
//
// [Conformance] tests that an implementation of [device.Device] keeps the promises of the
// interface.
//
// # Caveats
//
//   - Only operations of the device and its streams are checked. Kernels and Go code that access
//     device memory are not.
//   - This package imports device/cuda, through auto. Tests of those two packages that import it
//     must be in an external test package.
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
