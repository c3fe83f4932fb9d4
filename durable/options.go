package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weftgo/weft"
)

// Sync says when a change is on the disk. The zero value is EveryBatch.
type Sync struct {
	mode     syncMode
	interval time.Duration
}

type syncMode uint8

const (
	syncBatch syncMode = iota
	syncInterval
	syncOS
)

var (
	// EveryBatch makes a change return after it is on the disk, with all changes before it. Changes
	// that wait at the same time share one sync.
	EveryBatch = Sync{}
	// OS leaves syncing to the operating system. A change survives the end of the process, however
	// it ends. After a power failure the table has its content of some earlier moment, at most a
	// minute ago on most systems.
	OS = Sync{mode: syncOS}
)

// Interval makes changes return before they are on the disk, and syncs them once per interval. A
// change survives the end of the process. A power failure loses at most the changes of the last
// interval and of the sync that was under way.
func Interval(d time.Duration) Sync { return Sync{syncInterval, d} }

// String returns the name of the policy: "every batch", "every 10ms" or "os".
func (s Sync) String() string {
	switch s.mode {
	case syncInterval:
		return fmt.Sprintf("every %v", s.interval)
	case syncOS:
		return "os"
	}
	return "every batch"
}

// DefaultLogLimit is the LogLimit of a zero Options.
const DefaultLogLimit = 256 << 20

// Options configures a store. The zero value syncs every batch.
type Options struct {
	// Sync says when changes are on the disk.
	Sync Sync
	// LogLimit is the size in bytes at which a checkpoint replaces the log. It bounds the work of
	// the next Open, and the space that the log takes. 0 is [DefaultLogLimit].
	LogLimit int64
	// ReadAfterFailure allows lookups after the disk has failed. They may then return changes that
	// are not on the disk. Without it, lookups return [ErrFailed], as changes do.
	ReadAfterFailure bool
	// Repair makes Open drop what is damaged, where it would return [weft.ErrCorrupt]. Of a damaged
	// log, all changes from the first damaged one on are lost; [Status] says how many frames. Of a
	// damaged checkpoint, the pairs before the damage stay, and the log is replayed on them. A
	// store without its manifest or its first segment is refused even so.
	Repair bool
	// Logger receives recoveries, checkpoints and failures. nil is none.
	Logger *slog.Logger
}

// Errors of stores, in addition to those of package weft. A store of other types or options is
// [weft.ErrFormat]. A damaged one is [weft.ErrCorrupt], with the file and the position.
var (
	// ErrLocked: another process, or this one, has the store open.
	ErrLocked = errors.New("locked")
	// ErrFailed: writing or syncing has failed, so the disk may lack changes that the table has.
	// Every later change fails. Open reads the store again from the disk.
	ErrFailed = errors.New("the store has failed")
)

func (o Options) check() (Options, error) {
	if o.LogLimit == 0 {
		o.LogLimit = DefaultLogLimit
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.LogLimit < minLogLimit:
		return o, fmt.Errorf("%w: LogLimit %d is less than %d", weft.ErrOptions, o.LogLimit, minLogLimit)
	case o.Sync.mode == syncInterval && o.Sync.interval <= 0:
		return o, fmt.Errorf("%w: the interval %v is not positive", weft.ErrOptions, o.Sync.interval)
	}
	return o, nil
}

// minLogLimit is the least LogLimit: a few frames.
const minLogLimit = 1 << 12
