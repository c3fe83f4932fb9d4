package core

import (
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// LineBytes is the size of a line in bytes. It is the most that a GPU fetches for one address, and
// the size of two cache lines that a CPU fetches together.
const LineBytes = 128

// extraLines is the number of lines after the lines of the table.
const extraLines = 2

// Lines is the memory that a hash structure uses between two rehashes. Its layout is the same on
// every device. A line consists of slots; if all its bits are ones, it is empty.
//
//	line 0 … line n-1    the table
//	line n               keys that look like sentinels, as their complement
//	line n+1             a [Tally]
//
// The generation of a structure embeds Lines.
type Lines struct {
	Device device.Device
	Buf    device.Buffer
	Order  WeylOrder // order in which the table's lines are read
}

// LinesBytes returns the size in bytes of n table lines plus the extra lines.
func LinesBytes(n uint32) int { return (int(n) + extraLines) * LineBytes }

// NewLines allocates n table lines and the extra lines, with undefined content.
func NewLines(dev device.Device, n uint32) (Lines, error) {
	buf, err := dev.Alloc(LinesBytes(n))
	if err != nil {
		return Lines{}, fmt.Errorf("%d lines of %d bytes: %w", n, LineBytes, err)
	}
	return Lines{dev, buf, NewWeylOrder(n)}, nil
}

// Free implements [Parts].
func (l *Lines) Free() error { return l.Device.Free(l.Buf) }

// Memory returns l. Generations that embed Lines inherit it.
func (l *Lines) Memory() *Lines { return l }

// Units returns the number of lines with slots: the table lines and one extra line.
func (l *Lines) Units() uint32 { return uint32(l.Buf.Size/LineBytes - 1) }

// Bytes returns the size in bytes of the lines with slots.
func (l *Lines) Bytes() int { return l.Buf.Size - LineBytes }

// MemoryBytes returns the size in bytes of all lines.
func (l *Lines) MemoryBytes() int { return l.Buf.Size }

// TallyPtr returns the device address of the tally.
func (l *Lines) TallyPtr() device.Ptr { return l.Buf.Ptr + device.Ptr(l.Bytes()) }

// Tally returns the tally. The lines must lie in host memory.
func (l *Lines) Tally() *Tally { return (*Tally)(unsafe.Pointer(&l.Buf.Host[l.Bytes()])) }

// Tally holds the counters of a structure inside the structure's memory. In CUDA it is
// weft::Counters in kernels/include/weft/change.cuh.
type Tally struct {
	_    structs.HostLayout
	Live uint64 // pairs
	Used uint64 // slots that are not empty
}

// MaxUsed returns the maximum number of used slots for a load factor.
func MaxUsed(slots int, load float64) int { return int(float64(slots) * load) }
