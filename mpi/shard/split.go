package shard

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/seal"
	"github.com/weftgo/weft/internal/spill"
)

// splitter takes what group.Groups save and cuts it into streams of the same form, one for each
// rank: those of the groups whose keys hash to it. It is the writer that Save writes to. Package
// group documents the form: a head and a layout, pages, and an end.
type splitter struct {
	dev    device.Host
	out    [][]byte // by rank
	gather bool     // rank 0 gets all
	// flush is called after each page.
	flush func(more bool) error

	buf   []byte // what was written and is not complete
	head  []byte // the head and the layout, once there are rows
	keys  int    // key columns
	begun []bool // by rank: its stream has the head
}

// Sizes of parts of a stream of groups, each with a checksum of 4 bytes.
const (
	groupsHead     = 24 + 4
	groupsPageHead = 8 + 4
	groupsHasRows  = 1
)

// Write takes a piece of the stream.
func (s *splitter) Write(b []byte) (int, error) {
	s.buf = append(s.buf, b...)
	for {
		n, err := s.next()
		if err != nil || n == 0 {
			return len(b), err
		}
		s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	}
}

// next takes the next part of the stream, and returns its length, or 0 if it is not complete.
func (s *splitter) next() (int, error) {
	if s.head == nil {
		return s.takeHead(), nil
	}
	if len(s.buf) < groupsPageHead {
		return 0, nil
	}
	size := int(binary.LittleEndian.Uint64(s.buf))
	if size == 0 {
		return len(s.buf), nil
	}
	if len(s.buf) < groupsPageHead+size {
		return 0, nil
	}
	page, err := spill.DecodePage(s.buf[groupsPageHead:][:size])
	if err == nil {
		err = s.page(page)
	}
	if err == nil {
		err = s.flush(true)
	}
	return groupsPageHead + size, err
}

// takeHead keeps the head and the layout.
func (s *splitter) takeHead() int {
	if len(s.buf) < groupsHead {
		return 0
	}
	word := func(i int) int { return int(binary.LittleEndian.Uint32(s.buf[8+4*i:])) }
	flags, aggs, keys, values := word(0), word(1), word(2), word(3)
	size := groupsHead + 5*aggs + keys + values + 4
	if len(s.buf) < size {
		return 0
	}
	s.head, s.keys, s.begun = append([]byte{}, s.buf[:size]...), keys, make([]bool, len(s.out))
	if flags&groupsHasRows != 0 {
		for rank := range s.out { // so that all ranks learn the types
			s.begin(rank)
		}
	}
	return size
}

// begin begins a stream.
func (s *splitter) begin(rank int) {
	if !s.begun[rank] {
		s.begun[rank], s.out[rank] = true, append(s.out[rank], s.head...)
	}
}

// page deals the groups of a page out.
func (s *splitter) page(page []column.Column) error {
	if s.gather || s.keys == 0 || len(s.out) == 1 {
		s.add(0, page)
		return nil
	}
	parts, err := column.Partition(s.dev, page[:s.keys], column.PartitionOptions{Parts: len(s.out),
		Seed: slotSeed})
	if err != nil {
		return err
	}
	for rank := range s.out {
		if rows := parts.Part(rank); len(rows) > 0 {
			s.add(rank, spill.Take(s.dev, page, rows))
		}
	}
	return nil
}

// add adds a page to the stream of a rank.
func (s *splitter) add(rank int, page []column.Column) {
	s.begin(rank)
	at := len(s.out[rank])
	out := spill.AppendPage(append(s.out[rank], make([]byte, groupsPageHead)...), page)
	binary.LittleEndian.PutUint64(out[at:], uint64(len(out)-at-groupsPageHead))
	sealPart(out[at:], groupsPageHead-4)
	s.out[rank] = out
}

// end ends all streams that have begun. Others begin for the next round.
func (s *splitter) end() {
	for rank, begun := range s.begun {
		if begun {
			end := make([]byte, groupsPageHead)
			sealPart(end, 8)
			s.begun[rank], s.out[rank] = false, append(s.out[rank], end...)
		}
	}
}

// sealPart writes the checksum of the first n bytes after them.
func sealPart(b []byte, n int) {
	binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], seal.Castagnoli))
}
