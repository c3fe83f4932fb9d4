// Package bucket implements the common part of cuckoo and horton: tables of buckets in which keys
// move to their other buckets. A structure's policy embeds a [Policy]. The policy works with the
// [Size] of a table only, and rehashes the table to another size. A structure's generation embeds a
// [Generation]. [RehashGPU] and [Copy] rehash tables with any layout of buckets.
package bucket

import (
	"context"
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
)

// Size determines in which bucket each key of a table belongs.
type Size struct {
	Lines uint32 // lines of buckets, without lines that a structure has after them
	Seed  uint64
}

// Engine has the methods that a [Policy] requires of an engine.
type Engine interface {
	core.Engine
	// Size returns the size of the current table.
	Size() Size
	// Rehash moves the pairs to a table of another size. It returns weft.ErrFull if a pair finds no
	// slot there. After an error the old table is unchanged.
	Rehash(ctx context.Context, to Size) error
}

// Config describes a table to its [Policy].
type Config struct {
	Name      string // package name, for messages
	Capacity  int
	MaxLoad   float64 // share of slots with keys at which the table grows
	Fixed     bool
	Unordered bool
	Seed      uint64
	Logger    *slog.Logger

	SlotBytes     int
	LineMultiple  uint32  // each valid number of lines is a multiple of LineMultiple
	MaxLines      uint32  // maximum number of lines
	ReachableLoad float64 // a load that every large table reaches
	// a load that every fixed table reaches with the help of rehashes; 0 means any
	FixedLoad float64
}

// Buckets have 1, 2, 4, 8 or MaxSlots slots.
const (
	DefaultSlots = 8
	MaxSlots     = 16
	minMaxLoad   = 0.001
)

// RoundLanes returns the number of lanes that read a bucket with DefaultSlots slots. slot is the
// size of a slot in bytes. BucketRounds in rounds.cuh must match.
func RoundLanes(slot int) int { return min(DefaultSlots*slot/16, 4) }

// CheckOptions sets the defaults of the options Slots and MaxLoad, and reports invalid values.
// loads has the default load for each number of slots.
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

// linesFor returns the number of lines in which n keys do not exceed MaxLoad. ok is false if even
// the largest table has too few lines.
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

func (c *Config) roundLines(lines uint32) uint32 {
	return (lines + c.LineMultiple - 1) / c.LineMultiple * c.LineMultiple
}

func (c *Config) slots(lines uint32) int { return int(lines) * core.LineBytes / c.SlotBytes }

// FixedCapacity returns capacity if fixed is set, and 0 otherwise.
func FixedCapacity(capacity int, fixed bool) int {
	if fixed {
		return capacity
	}
	return 0
}
