package durable

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/seal"
)

// A log is a sequence of frames in segment files. Numbers are little-endian.
//
//	segment  "WEFTLOG1", number, salt, first sequence (uint64 each); shape; id of the store
//	         (uint64); CRC-32C of these
//	frame    bytes of the payload (uint32), kind, flags, two zero bytes, rows (uint32),
//	         CRC-32C of the frame and the salt (uint32), sequence, synced sequence,
//	         next id (uint64 each)
//	payload  columns of the effect: keys, second keys, values; zeros up to a multiple of 8
//
// Sequences count frames from 1, through all segments. The first sequence of a segment is 0 if its
// frames continue those of the segment before. Otherwise a recovery has made the segment, and the
// frames of the segment before end in front of that sequence.
//
// The synced sequence is a promise: when the frame was written, all frames up to that one were on
// the disk. The manifest has such a promise, too, made by Close. So a frame that is damaged
// although one promises it is corruption. One that no frame promises was lost in a power failure,
// before its change returned.
const (
	segmentMagic  = "WEFTLOG1"
	segmentHeader = 64
	frameHeader   = 40
)

// maxPayload is the maximum size in bytes of the payload of a frame. Tests lower it.
var maxPayload = 1 << 20

// flagLast marks the last frame of a change.
const flagLast = 1

// shape describes what a store holds, as its files record it: the kind of structure and the types.
type shape struct {
	core.Shape
	store uint64 // random number of the store, in its manifest and its segments
}

const shapeBytes = 8

func (s shape) bytes() [shapeBytes]byte {
	k, v := s.Types.Key, s.Types.Val
	return [shapeBytes]byte{s.Kind, k.Letter, k.Bits, v.Letter, v.Bits, byte(s.Flags)}
}

// decodeShape returns the shape that bytes has encoded.
func decodeShape(b []byte) (s shape, err error) {
	known := len(b) == shapeBytes
	if known {
		s.Kind, s.Flags = b[0], core.ShapeFlags(b[5])
		s.Types = core.Types{Key: core.Type{Letter: b[1], Bits: b[2]}, Val: core.Type{Letter: b[3], Bits: b[4]}}
		s.Key, s.Val = int(b[2])/8, int(b[4])/8
		known = s.Kind <= uint8(core.OrderedMap) || s.Kind >= core.RowGraph && s.Kind <= core.ItemIDs
	}
	if !known {
		err = fmt.Errorf("%w: the store holds a structure of a kind that this program does not know: % x", weft.ErrFormat, b)
	}
	return s, err
}

// rowBytes returns the size in bytes of a row of an effect of the given kind.
func (s shape) rowBytes(k core.EffectKind) int {
	keys, keys2, vals := s.columns(k)
	return keys + keys2 + vals
}

// columns returns the sizes in bytes of the columns in a row of an effect of the given kind.
func (s shape) columns(k core.EffectKind) (keys, keys2, vals int) {
	switch k {
	case core.PutPairs:
		return s.Key, 0, s.Val
	case core.DeleteKeys, core.PutVertices, core.DeleteVertices:
		return s.Key, 0, 0
	case core.DeleteRanges, core.DeleteEdges:
		return s.Key, s.Key, 0
	case core.PutEdges:
		return s.Key, s.Key, s.Val
	case core.AddItems:
		return 1, 0, 0
	}
	return 0, 0, 0
}

// frame is a frame in memory. Its effect refers to the bytes that it was read from.
type frame struct {
	core.Effect
	sequence, synced uint64
}

// appendFrame appends the encoded frame f to a slice. salt is the salt of its segment.
func appendFrame(to []byte, f *frame, salt uint64) []byte {
	at := len(to)
	payload := len(f.Keys) + len(f.Keys2) + len(f.Vals)
	to = slices.Grow(to, frameHeader+padded(payload))[:at+frameHeader]
	h := to[at:]
	clear(h)
	binary.LittleEndian.PutUint32(h, uint32(payload))
	h[4] = byte(f.Kind)
	if f.Last {
		h[5] = flagLast
	}
	binary.LittleEndian.PutUint32(h[8:], uint32(f.N))
	binary.LittleEndian.PutUint64(h[16:], f.sequence)
	binary.LittleEndian.PutUint64(h[24:], f.synced)
	binary.LittleEndian.PutUint64(h[32:], f.NextID)
	to = append(append(append(to, f.Keys...), f.Keys2...), f.Vals...)
	to = append(to, make([]byte, padded(payload)-payload)...)
	binary.LittleEndian.PutUint32(to[at+12:], frameCRC(to[at:], salt))
	return to
}

func padded(n int) int { return (n + 7) &^ 7 }

// frameCRC returns the CRC of an encoded frame, computed with zeros in place of the CRC.
func frameCRC(b []byte, salt uint64) uint32 {
	var s [12]byte
	binary.LittleEndian.PutUint64(s[:], salt)
	crc := crc32.Update(crc32.Checksum(s[:8], seal.Castagnoli), seal.Castagnoli, b[:12])
	crc = crc32.Update(crc, seal.Castagnoli, s[8:])
	return crc32.Update(crc, seal.Castagnoli, b[16:])
}

// frameSize returns the size in bytes of the frame with header h, or 0 if h is not a valid header.
func (s shape) frameSize(h []byte) int {
	payload, rows := int(binary.LittleEndian.Uint32(h)), int(binary.LittleEndian.Uint32(h[8:]))
	kind := core.EffectKind(h[4])
	if !kind.Valid() || h[5]&^flagLast != 0 || h[6]|h[7] != 0 || payload > maxPayload || payload != rows*s.rowBytes(kind) {
		return 0
	}
	return frameHeader + padded(payload)
}

// readFrame decodes the frame at the beginning of b. It returns the size of the frame, or 0 if
// there is no valid one. The effect refers to b.
func (s shape) readFrame(b []byte, salt uint64) (f frame, size int) {
	if len(b) < frameHeader {
		return f, 0
	}
	if size = s.frameSize(b); size == 0 || size > len(b) {
		return f, 0
	}
	b = b[:size]
	if binary.LittleEndian.Uint32(b[12:]) != frameCRC(b, salt) {
		return f, 0
	}
	f.Kind, f.Last, f.N = core.EffectKind(b[4]), b[5] == flagLast, int(binary.LittleEndian.Uint32(b[8:]))
	f.sequence, f.synced = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	f.NextID = binary.LittleEndian.Uint64(b[32:])
	cut := b[frameHeader:]
	column := func(width int) (c []byte) {
		c, cut = cut[:f.N*width:f.N*width], cut[f.N*width:]
		return c
	}
	keys, keys2, vals := s.columns(f.Kind)
	f.Keys, f.Keys2, f.Vals = column(keys), column(keys2), column(vals)
	return f, size
}

// appendSegmentHeader appends the header of a segment.
func (s shape) appendSegmentHeader(to []byte, number, salt, first uint64) []byte {
	at := len(to)
	to = append(to, segmentMagic...)
	to = binary.LittleEndian.AppendUint64(to, number)
	to = binary.LittleEndian.AppendUint64(to, salt)
	to = binary.LittleEndian.AppendUint64(to, first)
	shape := s.bytes()
	to = append(to, shape[:]...)
	to = binary.LittleEndian.AppendUint64(to, s.store)
	to = append(to, make([]byte, segmentHeader-4-(len(to)-at))...)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[at:], seal.Castagnoli))
}

// readSegmentHeader checks the header of a segment and returns its salt and its first sequence.
func (s shape) readSegmentHeader(h []byte, number uint64) (salt, first uint64, err error) {
	shape, crc := s.bytes(), binary.LittleEndian.Uint32
	switch {
	case len(h) < segmentHeader || string(h[:8]) != segmentMagic,
		crc(h[segmentHeader-4:]) != crc32.Checksum(h[:segmentHeader-4], seal.Castagnoli):
		return 0, 0, fmt.Errorf("%w: its header is damaged", weft.ErrCorrupt)
	case binary.LittleEndian.Uint64(h[8:]) != number:
		return 0, 0, fmt.Errorf("%w: it is segment %d", weft.ErrCorrupt,
			binary.LittleEndian.Uint64(h[8:]))
	case string(h[32:32+shapeBytes]) != string(shape[:]),
		binary.LittleEndian.Uint64(h[32+shapeBytes:]) != s.store:
		return 0, 0, fmt.Errorf("%w: it belongs to another store: remove it from this folder", weft.ErrFormat)
	}
	return binary.LittleEndian.Uint64(h[16:]), binary.LittleEndian.Uint64(h[24:]), nil
}

// frames cuts an effect into parts with payloads of at most maxPayload bytes and calls f for each
// part.
func (s shape) frames(e *core.Effect, f func(part *core.Effect) error) error {
	row := s.rowBytes(e.Kind)
	if row == 0 || e.N*row <= maxPayload {
		return f(e)
	}
	keys, keys2, vals := s.columns(e.Kind)
	step := maxPayload / row
	for lo := 0; lo < e.N; lo += step {
		hi := min(lo+step, e.N)
		part := core.Effect{
			Kind: e.Kind, N: hi - lo, Last: e.Last && hi == e.N,
			Keys: e.Keys[lo*keys : hi*keys], Keys2: e.Keys2[lo*keys2 : hi*keys2],
			Vals: e.Vals[lo*vals : hi*vals],
		}
		if err := f(&part); err != nil {
			return err
		}
	}
	return nil
}
