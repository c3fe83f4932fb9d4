// Package bucket holds the common part of tables of buckets that move keys to their other buckets:
// cuckoo and horton. A structure's policy embeds a [Policy], which sees a table only as a size that
// can be rehashed to another. Its generations embed a [Generation]. [RehashGPU] and [Copy] rehash
// any layout of buckets.
package bucket

import (
	"context"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
)

// Size determines where the keys of a table are.
type Size struct {
	Lines uint32 // of buckets, without the lines that a structure has after them
	Seed  uint64
}

// Engine is what a [Policy] requires of an engine.
type Engine interface {
	core.Engine
	// Size returns the size of the table in use.
	Size() Size
	// Rehash moves the pairs to a table of another size. It returns weft.ErrFull if they crowd
	// there, so that some find no slot. On an error the old table is unchanged.
	Rehash(ctx context.Context, to Size) error
}

// Config describes a table to its [Policy].
type Config struct {
	Name      string // of the package, for messages
	Capacity  int
	MaxLoad   float64 // of the slots, at which the table grows
	Fixed     bool
	Unordered bool
	Seed      uint64
	Logger    *slog.Logger

	SlotBytes     int
	LineMultiple  uint32  // numbers of lines are multiples of it
	MaxLines      uint32  // the largest number of lines
	ReachableLoad float64 // the load that every large table reaches
	FixedLoad     float64 // the load that a table of fixed size reaches through its upkeep; 0: any
}

// Buckets have 1, 2, 4, 8 or MaxSlots slots.
const (
	DefaultSlots = 8
	MaxSlots     = 16
	minMaxLoad   = 0.001
)

// RoundLanes returns the number of lanes that read a bucket of DefaultSlots slots of slot bytes
// (twin: BucketRounds in rounds.cuh).
func RoundLanes(slot int) int { return min(DefaultSlots*slot/16, 4) }

// CheckOptions fills in the defaults of the options Slots and MaxLoad and rejects invalid ones.
// loads maps numbers of slots to default loads.
func CheckOptions(slots *int, maxLoad *float64, loads map[int]float64) error {
	if *slots == 0 {
		*slots = DefaultSlots
	}
	if *maxLoad == 0 {
		*maxLoad = loads[*slots]
	}
	switch {
	case loads[*slots] == 0:
		return core.Invalid("Slots %d is not 1, 2, 4, 8 or %d", *slots, MaxSlots)
	case !(*maxLoad >= minMaxLoad && *maxLoad <= 1): // also NaN
		return core.Invalid("MaxLoad %v is not in [%v, 1]", *maxLoad, minMaxLoad)
	}
	return nil
}

// First returns the size of a new table, or an error if the options are invalid.
func (c *Config) First() (Size, error) {
	lines, ok := c.linesFor(uint64(c.Capacity))
	if !ok {
		return Size{}, core.Invalid("Capacity %d at load %g needs more than %d GiB",
			c.Capacity, c.MaxLoad, core.LinesBytes(c.MaxLines)>>30)
	}
	return Size{lines, c.Seed}, nil
}

// linesFor returns the number of lines in which n keys stay within MaxLoad. ok is false if no table
// is that large.
func (c *Config) linesFor(n uint64) (lines uint32, ok bool) {
	want := math.Ceil(float64(n) / c.MaxLoad / float64(core.LineBytes/c.SlotBytes))
	if want > float64(c.MaxLines) {
		return 0, false
	}
	lines = c.roundLines(max(uint32(want), 1))
	for lines <= c.MaxLines {
		missing := int(n) - min(core.MaxUsed(c.slots(lines), c.MaxLoad), c.fixedKeys(lines))
		if missing <= 0 {
			return lines, true
		}
		lines = c.roundLines(lines + uint32(max(missing/c.slots(1), 1)))
	}
	return 0, false
}

// roundLines rounds a number of lines up to a multiple.
func (c *Config) roundLines(lines uint32) uint32 {
	return (lines + c.LineMultiple - 1) / c.LineMultiple * c.LineMultiple
}

func (c *Config) slots(lines uint32) int { return int(lines) * core.LineBytes / c.SlotBytes }

// FixedCapacity returns the capacity of a table of fixed size, or 0 for one that grows.
func FixedCapacity(capacity int, fixed bool) int {
	if fixed {
		return capacity
	}
	return 0
}
