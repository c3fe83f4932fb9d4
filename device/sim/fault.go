package sim

import (
	"fmt"
	"strings"
)

// Fault describes an error of a kernel, a copy or the host, and its place. It is the cause in the
// chain of the device.ErrLost that the waiting call and every later call return.
type Fault struct {
	Kernel string // entry point; "" if a copy or the host caused the fault
	Work   string // the copy, or the work that uses freed memory
	File   string // name of the PTX module, e.g. "linear_sm90.ptx"
	Line   int    // line in File; 0 if no instruction caused the fault
	Text   string // text of the instruction
	Block  [3]int // index of the block in the grid
	Warp   int    // index of the warp in the block
	Lane   int    // index of the lane in the warp; -1 if a whole warp or block caused the fault
	Reason string // description of the error
	Seed   uint64 // seed of the device
	Launch int    // number of earlier launches on the device
}

// Error returns the reason, then the kernel, the instruction and the thread, or the work.
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
