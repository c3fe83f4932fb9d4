package sim

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// A tracer writes what a device executes, one line per warp instruction:
//
//	block.warp lanes line: instruction  = value of the lowest lane
type tracer struct {
	w *bufio.Writer
	c io.Closer
}

func newTracer(name string) (*tracer, error) {
	if name == "-" {
		return &tracer{w: bufio.NewWriter(os.Stderr)}, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &tracer{bufio.NewWriter(f), f}, nil
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

// note writes a line of its own and sees to it that it is not lost.
func (t *tracer) note(format string, args ...any) {
	fmt.Fprintf(t.w, "# "+format+"\n", args...)
	t.w.Flush()
}

func (t *tracer) launch(l *launch) {
	t.note("launch %d: %s, grid %v, blocks of %v, seed %d", l.number, l.prog.kernel.name, l.grid, l.blockDim, l.seed)
}

// step writes an instruction that is about to execute in lanes m of g.
func (t *tracer) step(w *warp, in *instr, g group, m uint32) {
	fmt.Fprintf(t.w, "%d,%d,%d.%d %08x %d: %s", w.block.at[0], w.block.at[1], w.block.at[2], w.index, m, in.st.line, in.st.text)
	if in.access != nil && m != 0 {
		fmt.Fprintf(t.w, "  [lane %d: 0x%x]", lowest(m), w.rows[in.a][lowest(m)]+in.access.disp)
	}
	if m != g.mask {
		fmt.Fprintf(t.w, "  (of %08x)", g.mask)
	}
	fmt.Fprintln(t.w)
}
