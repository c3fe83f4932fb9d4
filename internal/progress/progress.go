// Package progress shows the progress of a long job on a terminal. It shows nothing if the output
// is not a terminal. Printable and Interruptible help with messages and with waits.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// minTime is the age of a job at which its line appears. Shorter jobs show no line.
const minTime = time.Second

// interval is the minimum time between two drawings of the line.
const interval = 100 * time.Millisecond

// maxColumns is the maximum length of the line. A longer line would wrap on a terminal of 80
// columns, and a wrapped line cannot be removed.
const maxColumns = 79

// Bar shows the progress of a job: a line with share, count, rate and remaining time. A nil Bar
// shows nothing. Several goroutines may use one Bar.
type Bar struct {
	w     io.Writer
	label string
	total int64 // 0 if unknown
	bytes bool
	start time.Time

	mu      sync.Mutex
	n       int64
	spilled int64     // bytes
	drawn   time.Time // last time the line was drawn
	width   int       // columns that the line takes on the terminal
}

// Bytes returns a bar that counts bytes and writes to w. A total of 0 or less means that it is
// unknown. If w is not a terminal, Bytes returns nil.
func Bytes(w io.Writer, isTerminal bool, label string, total int64) *Bar {
	return newBar(w, isTerminal, label, total, true)
}

// Count returns a bar that counts things other than bytes. See [Bytes] for the parameters.
func Count(w io.Writer, isTerminal bool, label string, total int64) *Bar {
	return newBar(w, isTerminal, label, total, false)
}

// Show draws the label of a job at once. Its bar counts bytes, if the job calls Set.
func Show(w io.Writer, isTerminal bool, label string) *Bar {
	b := newBar(w, isTerminal, label, 0, true)
	if b != nil {
		b.draw(label)
	}
	return b
}

func newBar(w io.Writer, isTerminal bool, label string, total int64, bytes bool) *Bar {
	if !isTerminal {
		return nil
	}
	return &Bar{w: w, label: label, total: max(total, 0), bytes: bytes, start: time.Now()}
}

// Add adds n to the count, and redraws the line at most ten times a second.
func (b *Bar) Add(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += int64(n)
	b.redraw()
}

// Set sets the count and the total, and redraws the line like Add.
func (b *Bar) Set(n, total int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.total = n, total
	b.redraw()
}

func (b *Bar) redraw() {
	now := time.Now()
	if now.Sub(b.start) < minTime || now.Sub(b.drawn) < interval {
		return
	}
	b.drawn = now
	b.draw(b.line(now.Sub(b.start)))
}

// Spilled sets the number of bytes written to a temporary file, which the next line shows.
func (b *Bar) Spilled(bytes int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spilled = bytes
}

// Close removes the line from the terminal. Close is idempotent.
func (b *Bar) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.width > 0 {
		b.draw("")
		_, _ = io.WriteString(b.w, "\r")
	}
}

// draw replaces the line. It ignores errors, which are no reason to stop the job.
func (b *Bar) draw(line string) {
	_, _ = fmt.Fprintf(b.w, "\r%-*s", b.width, line)
	b.width = len(line)
}

// line returns the line to show once the job has run for the time took. The rate is the mean over
// the whole job.
func (b *Bar) line(took time.Duration) string {
	var s strings.Builder
	rate := float64(b.n) / took.Seconds()
	fmt.Fprintf(&s, "%s ", b.label)
	switch {
	case b.n > b.total: // the total is unknown, or the file grows
		fmt.Fprintf(&s, "%s, %s/s, %v",
			b.amount(b.n), b.amount(int64(rate+.5)), took.Round(time.Second))
	case b.n > 0:
		left := time.Duration(min(float64(b.total-b.n)/rate, 1e9)) * time.Second
		fmt.Fprintf(&s, "%d%%, %s/%s, %s/s, %v left", int(100*float64(b.n)/float64(b.total)),
			b.amount(b.n), b.amount(b.total), b.amount(int64(rate+.5)), left)
	}
	if b.spilled > 0 {
		fmt.Fprintf(&s, ", %s spilled", inBytes(b.spilled))
	}
	return s.String()[:min(s.Len(), maxColumns)]
}

// amount formats a count of things or bytes.
func (b *Bar) amount(n int64) string {
	if !b.bytes {
		return fmt.Sprint(n)
	}
	return inBytes(n)
}

// inBytes formats bytes with three digits and a unit.
func inBytes(n int64) string {
	x, unit := float64(n), 0
	for ; x >= 999.5; unit++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g %s", x, [...]string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}[unit])
}
