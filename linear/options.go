package linear

import (
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map] or a [Set]. The zero value and nil are good
// defaults.
type Options struct {
	// Capacity is the number of keys that fit without growing. Default 0:
	// the table starts at one line and grows. A fixed table needs it.
	Capacity int

	// MaxLoad is the share of slots in use, live or dead, at which the table
	// grows; for a fixed table, the share of slots that Capacity keys fill.
	// Default 0.8. Up to there a lookup that finds its key takes about one
	// memory access; at 0.9 a search for an absent key reads three to six lines,
	// at 0.97 dozens. Beyond 32 lines, or 4 KiB, a table leaves one slot in 32
	// free whatever MaxLoad says, and one in 16 if slots have 16 bytes.
	MaxLoad float64

	// Fixed tables never grow nor shrink. They take Capacity keys, and more until
	// no slots are left but those that MaxLoad may not use. Keys beyond are left
	// out, and the call returns weft.ErrFull: to find out takes as long as to look
	// such a key up, 17 to 33 lines on average and 4096 at most. Where keys come and go, the slots of those
	// that went are dropped within the table's memory, before they make searches
	// long; an iteration under way puts that off.
	Fixed bool

	// Tombstones is the deletion scheme. Default Keep.
	Tombstones Tombstones

	// Unordered drops the promise that duplicates within a batch have the
	// outcome of batch order; any one of them wins. It saves a GPU from
	// looking for them. The CPU keeps the order either way.
	Unordered bool

	// Seed keys the hash. Default 0: random, so that nobody can prepare
	// colliding keys. Two tables of one seed, size and history are equal byte
	// for byte on a CPU.
	Seed uint64

	// Logger is told of growth, shrinking and rehashes at debug level.
	// Default: silent.
	Logger *slog.Logger
}

// Tombstones is what becomes of the slot of a deleted key.
type Tombstones int

const (
	// Keep leaves the slot to its key, as in the article's main design: the
	// key returns to it, other keys never take it, and inserts, deletes and
	// lookups may run together in any way. Dead slots of keys that don't
	// return are dropped by the next rehash.
	Keep Tombstones = iota
	// Reuse gives the slot to any new key, as in the article's second design:
	// best when different keys come and go. Batches of inserts reuse, mixed
	// batches don't.
	Reuse
)

var tombstones = enum.Names[Tombstones]{Type: "linear.Tombstones", Names: []string{"Keep", "Reuse"}, Err: op.ErrOptions}

// String is the name of the scheme.
func (t Tombstones) String() string { return tombstones.String(t) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (t Tombstones) MarshalText() ([]byte, error) { return tombstones.Text(t) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (t *Tombstones) UnmarshalText(text []byte) error { return tombstones.Read(t, text) }

const (
	defaultMaxLoad = 0.8
	minMaxLoad     = 0.001
	// shrinkShare of the load limit: a table is shrunk when deletes leave less.
	// Far enough from one half that keys that come and go a few at a time don't
	// grow and shrink it in turns; a table that is emptied and filled in turns
	// should be cleared instead, or given a Capacity.
	shrinkShare = 1.0 / 8
)

// check fills in defaults and reports what makes no sense.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = defaultMaxLoad
	}
	switch {
	case !(c.MaxLoad >= minMaxLoad && c.MaxLoad <= 1): // also NaN
		return c, core.Invalid("MaxLoad %v is not in [%v, 1]", c.MaxLoad, minMaxLoad)
	case c.Tombstones != Keep && c.Tombstones != Reuse:
		return c, core.Invalid("no such scheme of tombstones: %d", c.Tombstones)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

// linesFor is the number of lines in which n keys stay within a load.
// ok is false if there is no such table.
func linesFor(n uint64, load float64, slotBytes int) (lines uint32, ok bool) {
	perLine := float64(lineBytes / slotBytes)
	want := math.Ceil(float64(n) / load / perLine)
	if want > maxLines {
		return 0, false
	}
	lines = max(uint32(want), 1)
	for keysAt(lines, load, slotBytes) < int(n) {
		short := int(n) - keysAt(lines, load, slotBytes)
		if lines += uint32(max(short/int(perLine), 1)); lines > maxLines {
			return 0, false
		}
	}
	return lines, true
}

// keysAt is how many keys a number of lines takes up to a load.
func keysAt(lines uint32, load float64, slotBytes int) int {
	perLine := lineBytes / slotBytes
	return min(core.RoomIn(int(lines)*perLine, load), maxKeys(lines, perLine))
}
