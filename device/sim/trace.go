package sim

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// tracer writes the instructions that a device executes, one line per warp instruction:
//
//	block.warp lanes line: instruction
//
// The line of a memory access ends with the address and the value of the lowest lane. The value is
// the one loaded or stored, or the old value that an atomic returns. Lines that begin with # report
// which launch continues, and the pieces of copies.
type tracer struct {
	w   *bufio.Writer
	c   io.Closer
	now *launch // launch of the last line
}

func newTracer(name string) (*tracer, error) {
	if name == "-" {
		return &tracer{w: bufio.NewWriter(os.Stderr)}, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &tracer{w: bufio.NewWriter(f), c: f}, nil
}

func (t *tracer) close() error {
	err := t.w.Flush()
	if t.c != nil {
		if e := t.c.Close(); err == nil {
			err = e
		}
	}
	return err
}

// note writes a line that begins with #, and flushes it.
func (t *tracer) note(format string, args ...any) {
	fmt.Fprintf(t.w, "# "+format+"\n", args...)
	t.w.Flush()
}

func (t *tracer) launch(l *launch) {
	t.now = l
	t.note("launch %d: %s, grid %v, blocks of %v, seed %d, stream %d", l.number, l.prog.kernel.name, l.grid, l.blockDim, l.seed, l.work.stream.index)
}

// piece writes a line about a piece of a transfer.
func (t *tracer) piece(w *work, lo, hi int) {
	t.note("bytes %d to %d of the %v", lo, hi, w)
}

// step writes an instruction that is about to execute in lanes m of g. For a memory access,
// [tracer.value] completes the line.
func (t *tracer) step(w *warp, in *instr, g group, m uint32) {
	if w.launch != t.now {
		t.now = w.launch
		t.note("launch %d goes on", t.now.number)
	}
	fmt.Fprintf(t.w, "%d,%d,%d.%d %08x %d: %s", w.block.at[0], w.block.at[1], w.block.at[2], w.index, m, in.st.line, in.st.text)
	if m != g.mask {
		fmt.Fprintf(t.w, "  (of %08x)", g.mask)
	}
	switch {
	case in.kind != kindPrivate && in.kind != kindMemory:
		fmt.Fprintln(t.w)
	case in.addresses() && m != 0:
		fmt.Fprintf(t.w, "  lane %d: [0x%x]", lowest(m), w.rows[in.a][lowest(m)]+in.access.disp)
	}
}

// addresses reports whether the instruction has an address. Fences and divisions have none.
func (in *instr) addresses() bool { return in.access != nil && in.access.size > 0 }

// value completes the line of an instruction that has executed in lanes m.
func (t *tracer) value(w *warp, in *instr, m uint32) {
	if in.addresses() && m != 0 && !w.launch.failed() {
		rows := in.list // rows of a load or store
		switch {
		case rows == nil && in.d >= 0:
			rows = []int32{in.d}
		case rows == nil: // a reduction returns no value
			rows = []int32{in.b}
		}
		fmt.Fprint(t.w, " =")
		for _, row := range rows {
			if in.access.size == 16 {
				fmt.Fprintf(t.w, " 0x%x_%016x", w.rows[row+1][lowest(m)], w.rows[row][lowest(m)])
			} else {
				fmt.Fprintf(t.w, " 0x%x", w.rows[row][lowest(m)])
			}
		}
	}
	fmt.Fprintln(t.w)
}
