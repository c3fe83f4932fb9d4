package sim

import (
	"fmt"
	"strings"
)

// A Fault describes what a kernel, a copy or the host did wrong, and where. It is the cause wrapped
// by device.ErrLost, which the waiting call and every later call return.
type Fault struct {
	Kernel string // entry point; "" if the fault is not a kernel's, but of Work
	Work   string // a copy, or the work that uses freed memory
	File   string // name of the PTX module, e.g. "linear_sm90.ptx"
	Line   int    // in File; 0 if the fault belongs to no instruction
	Text   string // the instruction
	Block  [3]int // of the grid
	Warp   int    // of the block
	Lane   int    // of the warp; -1 if the fault is the warp's or the block's
	Reason string // what went wrong
	Seed   uint64 // of the device
	Launch int    // number of earlier launches of the device
}

// Error returns the reason first, then the place from large to small.
func (f *Fault) Error() string {
	if f.Kernel == "" {
		return fmt.Sprintf("%s: %s (after %d launches, seed %d)", f.Reason, f.Work, f.Launch, f.Seed)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: kernel %s, %s:%d", f.Reason, f.Kernel, f.File, f.Line)
	if f.Text != "" {
		fmt.Fprintf(&b, " (%s)", f.Text)
	}
	fmt.Fprintf(&b, ", block %d,%d,%d, warp %d", f.Block[0], f.Block[1], f.Block[2], f.Warp)
	if f.Lane >= 0 {
		fmt.Fprintf(&b, ", lane %d", f.Lane)
	}
	fmt.Fprintf(&b, " (launch %d, seed %d)", f.Launch, f.Seed)
	return b.String()
}
