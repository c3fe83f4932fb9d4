package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weftgo/weft"
)

// Sync determines when changes are synced to the disk. The zero value is EveryBatch.
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
	// it ends. After a power failure the table has the content that it had at an earlier moment, at
	// most a minute before the failure on most systems.
	OS = Sync{mode: syncOS}
)

// Interval makes changes return before they are on the disk, and syncs them once per interval d. A
// change survives the end of the process. A power failure loses at most the changes of the last
// interval and the changes that a running sync covers.
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

// DefaultLogLimit is the default of Options.LogLimit: 256 MiB.
const DefaultLogLimit = 256 << 20

// Options configures a store. The zero value syncs every batch.
type Options struct {
	// Sync determines when changes are synced to the disk.
	Sync Sync
	// LogLimit is the size in bytes of the log at which a checkpoint replaces the log. It bounds
	// the work of the next Open, and the disk space for the log. 0 means [DefaultLogLimit].
	LogLimit int64
	// ReadAfterFailure allows lookups after a failed write or sync. These lookups may return
	// changes that are not on the disk. Without ReadAfterFailure, lookups return [ErrFailed], as
	// changes do.
	ReadAfterFailure bool
	// Repair makes Open drop damaged data instead of returning [weft.ErrCorrupt]. In a damaged log,
	// all changes from the first damaged one on are lost; [Status] returns the number of lost
	// frames. In a damaged checkpoint, the pairs before the damage stay, and the log is replayed on
	// them. Open returns an error even with Repair if the manifest or the first segment is missing.
	Repair bool
	// Progress, if not nil, is called while Open or Read reads the store, with the bytes read so
	// far and the bytes to read. The log is read twice.
	Progress func(done, total int64)
	// Logger receives messages about recoveries, checkpoints and failures. If it is nil, none are
	// logged.
	Logger *slog.Logger
}

// Errors of stores, in addition to the errors of package weft. Open returns [weft.ErrFormat] for a
// store of other types or options, and [weft.ErrCorrupt] with the file and the position for a
// damaged store.
var (
	// ErrLocked reports that the store is already open, in this process or in another one.
	ErrLocked = errors.New("locked")
	// ErrFailed reports that a write or a sync has failed, so that the disk may lack changes that
	// the table has. Every later change fails. To continue, close the store and Open it again from
	// the disk.
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
		return o, fmt.Errorf("%w: LogLimit %d is less than %d", weft.ErrOptions, o.LogLimit,
			minLogLimit)
	case o.Sync.mode == syncInterval && o.Sync.interval <= 0:
		return o, fmt.Errorf("%w: the interval %v is not positive", weft.ErrOptions,
			o.Sync.interval)
	}
	return o, nil
}

// minLogLimit is the minimum of Options.LogLimit in bytes. A log of that size holds a few frames.
const minLogLimit = 1 << 12
