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
	what  string
	bytes bool
	total int64
	done  int64
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
	return &Bar{w: w, what: what, bytes: true, total: total, start: time.Now()}
}

// Count is Bytes for a number of other things.
func Count(w io.Writer, isTerminal bool, what string, total int64) *Bar {
	b := Bytes(w, isTerminal, what, total)
	if b != nil {
		b.bytes = false
	}
	return b
}

// Add counts n bytes more.
func (b *Bar) Add(n int) {
	if b == nil {
		return
	}
	b.done += int64(n)
	if b.bar == nil {
		if time.Since(b.start) < after {
			return
		}
		b.bar = progressbar.NewOptions64(b.total,
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetDescription(b.what),
			progressbar.OptionShowBytes(b.bytes),
			progressbar.OptionShowCount(),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			// No goroutine that draws by itself: the job's progress does.
			progressbar.OptionSetSpinnerChangeInterval(0),
			progressbar.OptionFullWidth(),
		)
	}
	// What was announced may be wrong for a file that grows; a bar that
	// cannot be drawn is no reason to stop the job.
	_ = b.bar.Set64(b.done)
}

// Close removes the bar from the terminal. Idempotent.
func (b *Bar) Close() {
	if b == nil || b.bar == nil {
		return
	}
	_ = b.bar.Clear()
	b.bar = nil
}
