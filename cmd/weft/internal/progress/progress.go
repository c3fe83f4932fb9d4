// Package progress shows how far a long job is, on a terminal and only there.
package progress

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// after is how long a job runs before its bar appears: what is over by then
// needs none.
const after = time.Second

// Bar is the progress of one job. A nil Bar shows nothing.
type Bar struct {
	w     io.Writer
	start time.Time
	bar   *progressbar.ProgressBar
}

// Bytes returns a bar that counts total bytes, -1 if unknown, and writes to w.
// It returns nil if w is no terminal.
func Bytes(w io.Writer, isTerminal bool, what string, total int64) *Bar {
	if !isTerminal {
		return nil
	}
	if total == 0 { // as files of /proc say
		total = -1
	}
	return newBar(w, what, total, true)
}

// newBar begins a bar at once, which measures rates from its beginning; it is drawn later.
func newBar(w io.Writer, what string, total int64, bytes bool) *Bar {
	b := &Bar{w: w, start: time.Now()}
	b.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(b),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		// No goroutine that draws by itself: the job's progress does.
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionFullWidth(),
	)
	b.bar.StartWithoutRender()
	return b
}

// Write draws on the terminal, or nothing while the job is young.
func (b *Bar) Write(text []byte) (int, error) {
	if time.Since(b.start) < after {
		return len(text), nil
	}
	return b.w.Write(text)
}

// Count is Bytes for a number of other things.
func Count(w io.Writer, isTerminal bool, what string, total int64) *Bar {
	if !isTerminal {
		return nil
	}
	return newBar(w, what, total, false)
}

// Add counts n bytes more.
func (b *Bar) Add(n int) {
	if b == nil || b.bar == nil {
		return
	}
	// What was announced may be wrong for a file that grows; a bar that
	// cannot be drawn is no reason to stop the job.
	_ = b.bar.Add(n)
}

// Close removes the bar from the terminal. Idempotent.
func (b *Bar) Close() {
	if b == nil || b.bar == nil {
		return
	}
	_ = b.bar.Clear()
	b.bar = nil
}
