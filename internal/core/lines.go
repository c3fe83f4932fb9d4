package core

import (
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// LineBytes is what a GPU fetches at most for one address, and two cache lines of
// a CPU that are fetched in pairs.
const LineBytes = 128

// extraLines are those behind the table.
const extraLines = 2

// Lines are the memory of a hash structure between two rehashes, the same on
// every device. A line has slots; of all ones it is empty.
//
//	line 0 … line n-1    the table
//	line n               keys that look like sentinels, as their complement
//	line n+1             a [Tally]
//
// A structure's generation embeds it.
type Lines struct {
	Device device.Device
	Buf    device.Buffer
	Order  Spread // in which they are read, but for the extra one
}

// LinesBytes is the size of n lines and those behind them.
func LinesBytes(n uint32) int { return (int(n) + extraLines) * LineBytes }

// NewLines takes memory for n lines, whose content is undefined.
func NewLines(dev device.Device, n uint32) (Lines, error) {
	buf, err := dev.Alloc(LinesBytes(n))
	if err != nil {
		return Lines{}, fmt.Errorf("%d lines of %d bytes: %w", n, LineBytes, err)
	}
	return Lines{dev, buf, SpreadOver(n)}, nil
}

// Free is for [Parts].
func (l *Lines) Free() error { return l.Device.Free(l.Buf) }

// Memory is l: what a generation that embeds it has.
func (l *Lines) Memory() *Lines { return l }

// Units is the number of lines that have slots: those of the table, and the extra
// one.
func (l *Lines) Units() uint32 { return uint32(l.Buf.Size/LineBytes - 1) }

// Bytes is the size of those.
func (l *Lines) Bytes() int { return l.Buf.Size - LineBytes }

// MemoryBytes is the size of all, for who counts memory.
func (l *Lines) MemoryBytes() int { return l.Buf.Size }

// TallyPtr is where the tally lies on the device.
func (l *Lines) TallyPtr() device.Ptr { return l.Buf.Ptr + device.Ptr(l.Bytes()) }

// Tally is that of lines in host memory.
func (l *Lines) Tally() *Tally { return (*Tally)(unsafe.Pointer(&l.Buf.Host[l.Bytes()])) }

// Tally are the counters of a structure, in its memory (twin: weft::Counters in
// kernels/include/weft/change.cuh).
type Tally struct {
	_    structs.HostLayout
	Live uint64 // pairs
	Used uint64 // slots that are not empty
}

// RoomIn is how many of a number of slots may be used up to a load.
func RoomIn(slots int, load float64) int { return int(float64(slots) * load) }
