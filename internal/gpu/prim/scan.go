package prim

import (
	"github.com/weftgo/weft/device"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 scan.cu

// Constants compiled into the kernels.
const (
	scanThreads = 256
	scanVector  = 16 // size in bytes of a vector store, and its alignment
)

// scanTiles is the number of counts per tile for each width of a sum. headTiles is the number of
// keys per tile for each width of a key.
var (
	scanTiles = map[int]int{4: 32 * scanThreads, 8: 20 * scanThreads}
	headTiles = map[int]int{4: 28 * scanThreads, 8: 16 * scanThreads}
)

// Scan describes prefix sums of N counts (uint32). Offset i is the sum of the counts before count
// i, and offset N is the total. The N+1 offsets have Width bytes each: 8, or 4 for sums modulo
// 2^32. Sums must be below 2^62. Columns that are aligned to 16 bytes are faster.
type Scan struct {
	N               int
	Width           int
	Counts, Offsets device.Ptr
}

func (o *Scan) tiles() int { return tiles(max(o.N, 0), scanTiles[o.Width]) }

// scanScratch divides the scratch memory of a scan over the given number of tiles.
func scanScratch(at device.Ptr, tiles int) (next, status, end device.Ptr) {
	c := Carve(at)
	next = c.Alloc(4)
	status = c.Alloc(8 * tiles)
	return next, status, device.Ptr(c)
}

// startScan divides and zeroes the scratch memory of a scan.
func startScan(s *device.Stream, scratch device.Buffer, tiles int) (next, status device.Ptr, err error) {
	next, status, end := scanScratch(scratch.Ptr, tiles)
	return next, status, s.Fill(next, 0, int(end-next)/4)
}

// ScratchBytes returns the size of the scratch memory that the scan needs, or 0 if the scan is
// invalid.
func (o *Scan) ScratchBytes() int {
	if o.valid() != nil {
		return 0
	}
	_, _, end := scanScratch(0, o.tiles())
	return int(end)
}

func (o *Scan) valid() error {
	if scanTiles[o.Width] == 0 {
		return invalid("scan to numbers of %d bytes, not 4 or 8", o.Width)
	}
	return check("scan", o.N, 0, device.Buffer{})
}

// Scan submits a scan. It returns ErrInvalid if the width or a column is invalid, or if the scratch
// memory is too small.
func (k *Kernels) Scan(s *device.Stream, o *Scan, scratch device.Buffer) error {
	if err := o.valid(); err != nil {
		return err
	}
	columns := []column{{"offsets", o.Offsets, o.Width}}
	if o.N > 0 {
		columns = append(columns, column{"counts", o.Counts, 4})
	}
	if err := check("scan", o.N, o.ScratchBytes(), scratch, columns...); err != nil {
		return err
	}
	if o.N == 0 {
		return s.Fill(o.Offsets, 0, o.Width/4)
	}
	next, status, err := startScan(s, scratch, o.tiles())
	if err != nil {
		return err
	}
	p := scanParams{counts: o.Counts, offsets: o.Offsets, status: status, next: next, n: uint32(o.N)}
	if (o.Counts|o.Offsets)%scanVector == 0 {
		p.aligned = 1
	}
	name := "scan_64"
	if o.Width == 4 {
		name = "scan_32"
	}
	return launch(k, s, &scanImage, name, o.tiles(), scanThreads, &p)
}
