package core

import (
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// LineBytes is the maximum that a GPU fetches for one address, and the size of two cache lines of a
// CPU that are fetched in pairs.
const LineBytes = 128

// extraLines is the number of lines after the table.
const extraLines = 2

// Lines is the memory of a hash structure between two rehashes, the same on every device. A line
// has slots; a line of all ones is empty.
//
//	line 0 … line n-1    the table
//	line n               keys that look like sentinels, as their complement
//	line n+1             a [Tally]
//
// A structure's generation embeds it.
type Lines struct {
	Device device.Device
	Buf    device.Buffer
	Order  WeylOrder // reading order, without the extra line
}

// LinesBytes returns the size of n lines and the extra lines.
func LinesBytes(n uint32) int { return (int(n) + extraLines) * LineBytes }

// NewLines allocates memory for n lines with undefined content.
func NewLines(dev device.Device, n uint32) (Lines, error) {
	buf, err := dev.Alloc(LinesBytes(n))
	if err != nil {
		return Lines{}, fmt.Errorf("%d lines of %d bytes: %w", n, LineBytes, err)
	}
	return Lines{dev, buf, NewWeylOrder(n)}, nil
}

// Free implements [Parts].
func (l *Lines) Free() error { return l.Device.Free(l.Buf) }

// Memory returns l, for generations that embed it.
func (l *Lines) Memory() *Lines { return l }

// Units returns the number of lines that have slots: those of the table, and the extra one.
func (l *Lines) Units() uint32 { return uint32(l.Buf.Size/LineBytes - 1) }

// Bytes returns the size of the lines that have slots.
func (l *Lines) Bytes() int { return l.Buf.Size - LineBytes }

// MemoryBytes returns the size of all lines.
func (l *Lines) MemoryBytes() int { return l.Buf.Size }

// TallyPtr returns the address of the tally on the device.
func (l *Lines) TallyPtr() device.Ptr { return l.Buf.Ptr + device.Ptr(l.Bytes()) }

// Tally returns the tally of lines in host memory.
func (l *Lines) Tally() *Tally { return (*Tally)(unsafe.Pointer(&l.Buf.Host[l.Bytes()])) }

// Tally holds the counters of a structure, in its memory (twin: weft::Counters in
// kernels/include/weft/change.cuh).
type Tally struct {
	_    structs.HostLayout
	Live uint64 // pairs
	Used uint64 // slots that are not empty
}

// MaxUsed returns the number of slots that may be used up to a load factor.
func MaxUsed(slots int, load float64) int { return int(float64(slots) * load) }
