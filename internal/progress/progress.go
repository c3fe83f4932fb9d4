// Package progress shows how far a long job is, on a terminal and only there. It also has what
// messages and waits for a terminal need: Printable and Interruptible.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// minTime is the age of a job at which its line appears. Shorter jobs show none.
const minTime = time.Second

// interval is the time from one drawing of the line to the next.
const interval = 100 * time.Millisecond

// maxColumns is the longest line: a longer one would wrap on a terminal of 80 columns, and what
// wraps cannot be removed.
const maxColumns = 79

// Bar is the progress of one job: a line with share, count, rate and the time that is left. A nil
// Bar shows nothing. Several goroutines may use one.
type Bar struct {
	w     io.Writer
	label string
	total int64 // 0 if unknown
	bytes bool
	start time.Time

	mu      sync.Mutex
	n       int64
	spilled int64     // bytes
	drawn   time.Time // when the line was written last
	width   int       // columns that the line takes on the terminal
}

// Bytes returns a bar that counts total bytes and writes to w. A total of 0 or less is unknown.
// Bytes returns nil if w is no terminal.
func Bytes(w io.Writer, isTerminal bool, label string, total int64) *Bar {
	return newBar(w, isTerminal, label, total, true)
}

// Count is Bytes with a number of other things.
func Count(w io.Writer, isTerminal bool, label string, total int64) *Bar {
	return newBar(w, isTerminal, label, total, false)
}

// Show draws the name of a job of unknown length at once, and counts nothing.
func Show(w io.Writer, isTerminal bool, label string) *Bar {
	b := newBar(w, isTerminal, label, 0, false)
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

// Add counts n more and redraws the line at most ten times a second.
func (b *Bar) Add(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += int64(n)
	now := time.Now()
	if now.Sub(b.start) < minTime || now.Sub(b.drawn) < interval {
		return
	}
	b.drawn = now
	b.draw(b.line(now.Sub(b.start)))
}

// Spilled sets the number of bytes that went to a temporary file, which the next line shows.
func (b *Bar) Spilled(bytes int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spilled = bytes
}

// Close removes the line from the terminal. Idempotent.
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

// draw replaces the line by another. An error is no reason to stop the job.
func (b *Bar) draw(line string) {
	_, _ = fmt.Fprintf(b.w, "\r%-*s", b.width, line)
	b.width = len(line)
}

// line returns the line of a job that has run that long. The rate is that of the whole job.
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

// amount writes a count, or bytes.
func (b *Bar) amount(n int64) string {
	if !b.bytes {
		return fmt.Sprint(n)
	}
	return inBytes(n)
}

// inBytes writes bytes with three digits and a unit.
func inBytes(n int64) string {
	x, unit := float64(n), 0
	for ; x >= 999.5; unit++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g %s", x, [...]string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}[unit])
}
