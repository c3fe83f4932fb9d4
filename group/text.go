package group

import "github.com/weftgo/weft/internal/hostmem"

// textRef locates a byte string of a record in a segment of its part. The zero value is no string.
type textRef struct {
	segment, offset uint32
	size            uint64 // the length plus 1; 0: no value yet
	capacity        uint64 // bytes from offset on
}

const (
	// minSegment and maxSegment bound the size of a segment in bytes. A segment is half as large as
	// all earlier ones together, or as large as one longer text.
	minSegment = 256
	maxSegment = 64 << 10
)

// texts holds the byte strings of a part. If a longer string replaces a shorter one, the old bytes
// stay unused. The new string gets at least twice the old capacity, so fewer bytes are unused than
// in use.
type texts struct {
	pool     *hostmem.Pool // shared by all parts of a table; nil: the Go heap
	refs     []textRef     // l.texts per record
	segments [][]byte
	used     int // bytes used of the last segment
	bytes    int64
}

// get returns text i, or nil if it has no value.
func (x *texts) get(i int) []byte {
	t := &x.refs[i]
	if t.size == 0 {
		return nil
	}
	return x.segments[t.segment][t.offset:][: t.size-1 : t.size-1]
}

// set copies v to text i.
func (x *texts) set(i int, v []byte) {
	t := &x.refs[i]
	if n := uint64(len(v)); n > t.capacity || t.size == 0 {
		t.capacity = max(n, 2*t.capacity)
		t.segment, t.offset = x.allocate(int(t.capacity))
	}
	t.size = uint64(copy(x.segments[t.segment][t.offset:], v)) + 1
}

// allocate allocates n bytes and returns their location.
func (x *texts) allocate(n int) (segment, offset uint32) {
	last := len(x.segments) - 1
	if last < 0 || n > len(x.segments[last])-x.used {
		size := max(n, minSegment, min(int(x.bytes/2), maxSegment))
		x.segments = append(x.segments, x.pool.Make(size))
		x.bytes += int64(size)
		x.used, last = 0, last+1
	}
	x.used += n
	return uint32(last), uint32(x.used - n)
}

// reset removes all texts and keeps the last segment.
func (x *texts) reset() {
	clear(x.refs)
	x.refs, x.used, x.bytes = x.refs[:0], 0, 0
	if last := len(x.segments) - 1; last >= 0 {
		x.segments[0] = x.segments[last]
		clear(x.segments[1:])
		x.segments = x.segments[:1]
		x.bytes = int64(len(x.segments[0]))
	}
}
