package durable

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Recovery describes what Open found.
type Recovery struct {
	Pairs   int   // pairs loaded from the checkpoint
	Changes int   // changes replayed from the log
	Bytes   int64 // bytes of the log that were replayed
	Torn    int   // frames dropped because not all of their change is on the disk
	// what Options.Repair has dropped: frames of the log that had been on the disk, and pairs of
	// the checkpoint
	Lost, LostPairs int
	Damage          string // damage that Options.Repair has dropped: file, position and fault
}

// scan is the result of a first pass over the log. Changes are replayed only after the whole pass
// has succeeded.
type scan struct {
	segments []scanned
	complete uint64 // sequence of the last frame of the last complete change
	// sequence of the last frame of the last change that a promise covers; see frame.go
	boundary uint64
	torn     int // frames after complete that no promise covers
	lost     int // frames after the damage that a promise covers
}

// scanned is a segment with the frames that replay applies.
type scanned struct {
	number uint64
	limit  uint64 // the sequence after the last frame to apply
}

// scanner holds the state of the first pass over the log.
type scanner struct {
	scan
	fs       fileSystem
	shape    shape
	expected uint64
	// the greatest sequence that a frame or the manifest promises to be on the disk
	promised uint64
	manifest uint64   // the sequence that the manifest promises
	ends     []uint64 // sequences of the frames that end changes, ascending
	end      string   // description of the place where the next frame is missing or damaged
	broken   string   // the first such place that has frames after it, or ""
	brokenAt uint64   // sequence of the frame expected at that place
}

// scanLog reads all segments with the given numbers. The first frame to replay has the sequence
// first. The manifest promises that frames up to the sequence promised are on the disk. If the log
// is damaged, scanLog returns an error and the scan of the part before the damage.
func scanLog(fs fileSystem, s shape, numbers []uint64, first, promised uint64) (scan, error) {
	c := &scanner{fs: fs, shape: s, expected: first, promised: promised, manifest: promised}
	c.complete, c.boundary = first-1, first-1
	for i, number := range numbers {
		if i > 0 && number != numbers[i-1]+1 {
			c.lose(segmentName(numbers[i-1]+1) + " is missing")
		}
		if err := c.readSegment(number); errors.Is(err, weft.ErrCorrupt) {
			c.lose(err.Error())
		} else if err != nil {
			return c.scan, err
		}
	}
	for _, end := range c.ends {
		if end <= c.promised {
			c.boundary = end
		}
	}
	c.torn += int(c.expected - 1 - c.complete)
	if c.broken == "" && c.promised >= c.expected {
		c.broken, c.brokenAt = c.end, c.expected
	}
	if c.broken != "" && c.promised >= c.brokenAt {
		c.lost = int(c.promised - c.brokenAt + 1)
		c.torn = max(0, c.torn-c.lost)
		return c.scan, fmt.Errorf("%w: %s; %d frames from there on had been on the disk (Options.Repair drops them)", weft.ErrCorrupt, c.broken, c.lost)
	}
	return c.scan, nil
}

// lose records that a segment cannot be read. The segment was once on the disk, since it gets its
// name only then.
func (c *scanner) lose(why string) {
	if c.broken == "" {
		c.broken, c.brokenAt = why, c.expected
	}
	c.promised = max(c.promised, c.brokenAt)
}

func (c *scanner) readSegment(number uint64) (err error) {
	r, err := openSegment(c.fs, c.shape, number)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.first > 0 {
		if err := c.supersede(r.first); err != nil {
			return fmt.Errorf("%s: %w", segmentName(number), err)
		}
	}
	c.segments = append(c.segments, scanned{number: number})
	for {
		f, ok, err := r.next()
		if err == nil && !ok {
			c.end = fmt.Sprintf("%s: byte %d: frame %d is missing or damaged", segmentName(number),
				r.at, c.expected)
			if f, ok, err = r.search(); ok {
				c.note(&f)
			}
		} else if ok && c.broken == "" && f.sequence == c.expected {
			c.accept(&f)
		} else if ok {
			c.note(&f)
		}
		if err != nil || !ok {
			return err
		}
	}
}

// accept records a frame that continues the log.
func (c *scanner) accept(f *frame) {
	c.promised = max(c.promised, f.synced)
	c.expected++
	c.segments[len(c.segments)-1].limit = c.expected
	if f.Last {
		c.complete = f.sequence
		c.ends = append(c.ends, f.sequence)
	}
}

// note records a frame that does not continue the log, and the sequence that it promises.
func (c *scanner) note(f *frame) {
	if c.broken == "" {
		c.broken, c.brokenAt = c.end, c.expected
	}
	c.promised = max(c.promised, f.synced)
	c.torn++
}

// supersede drops all frames from sequence first on, because a recovery has written them again or
// dropped them.
func (c *scanner) supersede(first uint64) error {
	if first > c.expected {
		return fmt.Errorf("%w: it begins with frame %d, and the segments before end with frame %d",
			weft.ErrCorrupt, first, c.expected-1)
	}
	c.broken, c.torn = "", 0
	c.expected, c.promised = first, max(first-1, c.manifest)
	c.complete = min(c.complete, first-1)
	c.ends = slices.DeleteFunc(c.ends, func(end uint64) bool { return end >= first })
	for i := range c.segments {
		c.segments[i].limit = min(c.segments[i].limit, first)
	}
	return nil
}

type segmentReader struct {
	file
	shape               shape
	number, salt, first uint64
	at, size            int64
	memory              []byte
	buf                 []byte // the part of memory from at on
}

func openSegment(fs fileSystem, s shape, number uint64) (*segmentReader, error) {
	name := segmentName(number)
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	r := &segmentReader{file: f, shape: s, number: number, at: segmentHeader}
	header := make([]byte, segmentHeader)
	r.size, err = f.Size()
	if err == nil {
		_, err = f.ReadAt(header, 0)
		if errors.Is(err, io.EOF) {
			err = nil // the check says what is wrong
		}
	}
	if err == nil {
		r.salt, r.first, err = s.readSegmentHeader(header, number)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return r, nil
}

// window is the number of bytes of a segment to read at a time.
const window = 256 << 10

// fill reads until the buffer holds n bytes, or all remaining bytes of the segment.
func (r *segmentReader) fill(n int) error {
	if len(r.buf) >= n || int64(len(r.buf)) >= r.size-r.at {
		return nil
	}
	have, size := len(r.buf), int(min(max(window, int64(n)), r.size-r.at))
	memory := slices.Grow(r.memory[:0], size)[:size]
	copy(memory, r.buf)
	m, err := r.ReadAt(memory[have:], r.at+int64(have))
	m += have
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", segmentName(r.number), err)
	}
	if m < size { // a process that has the store open has cut the space after the last frame
		r.size = r.at + int64(m)
	}
	r.memory, r.buf = memory, memory[:m]
	return nil
}

// next reads the next frame, which is valid until the next call. If the bytes at the position are
// no valid frame, ok is false and the position stays.
func (r *segmentReader) next() (f frame, ok bool, err error) {
	if err := r.fill(frameHeader); err != nil || len(r.buf) < frameHeader {
		return f, false, err
	}
	if err := r.fill(r.shape.frameSize(r.buf)); err != nil {
		return f, false, err
	}
	f, size := r.shape.readFrame(r.buf, r.salt)
	r.skip(size)
	return f, size > 0, nil
}

func (r *segmentReader) skip(n int) { r.at, r.buf = r.at+int64(n), r.buf[n:] }

// search reads the first valid frame at or after the position. It tries every multiple of 8 bytes.
func (r *segmentReader) search() (f frame, ok bool, err error) {
	for {
		if f, ok, err = r.next(); ok || err != nil || len(r.buf) < frameHeader {
			return f, ok, err
		}
		r.skip(8)
		// no frame begins with zeros
		for len(r.buf) >= 8 && binary.LittleEndian.Uint64(r.buf) == 0 {
			r.skip(8)
		}
	}
}

// replay applies the complete changes of a scan, from sequence first on. It adds their counts to
// report.
func (p *player) replay(s scan, fs fileSystem, sh shape, first uint64, report *Recovery) error {
	err := s.each(fs, sh, first, s.complete, func(f *frame) error {
		if f.Last {
			report.Changes++
		}
		report.Bytes += int64(frameHeader + f.N*sh.rowBytes(f.Kind))
		return p.add(&f.Effect)
	})
	if err != nil {
		return err
	}
	return p.flush()
}

// each calls f for the frames with sequences first to last.
func (s scan) each(fs fileSystem, sh shape, first, last uint64, f func(*frame) error) error {
	expected := first
	for _, seg := range s.segments {
		if seg.limit <= first {
			continue
		}
		err := eachOf(fs, sh, seg, first, last, func(fr *frame) error {
			if fr.sequence != expected {
				return unreadable(seg, expected)
			}
			expected++
			return f(fr)
		})
		if err != nil {
			return err
		}
		if expected < min(seg.limit, last+1) {
			return unreadable(seg, expected)
		}
	}
	return nil
}

// unreadable returns the error for a frame that the first pass could read but the second pass
// cannot.
func unreadable(seg scanned, sequence uint64) error {
	return fmt.Errorf("%w: %s: frame %d was read once, and cannot be read again", weft.ErrCorrupt,
		segmentName(seg.number), sequence)
}

// eachOf calls f for the frames of a segment with sequences first to last.
func eachOf(fs fileSystem, sh shape, seg scanned, first, last uint64, f func(*frame) error) (err error) {
	r, err := openSegment(fs, sh, seg.number)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		fr, ok, err := r.next()
		if err != nil || !ok || fr.sequence >= seg.limit || fr.sequence > last {
			return err
		}
		if fr.sequence < first {
			continue
		}
		if err := f(&fr); err != nil {
			return err
		}
	}
}

// player applies effects to a structure. It joins the rows of successive frames of the same kind
// into large batches. It also joins rows of different changes if the structure allows it.
type player struct {
	ctx    context.Context
	table  core.Logged
	joined core.Effect
	joins  bool
}

// playRows is the number of rows at which the player applies the joined rows.
const playRows = 1 << 20

func (p *player) add(e *core.Effect) error {
	j := &p.joined
	if e.Kind != j.Kind || !joinable(e.Kind) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if !joinable(e.Kind) {
		return p.apply(e)
	}
	j.Kind, j.N = e.Kind, j.N+e.N
	j.Keys, j.Keys2 = append(j.Keys, e.Keys...), append(j.Keys2, e.Keys2...)
	j.Vals = append(j.Vals, e.Vals...)
	// Items are a stream of bytes, which frames cut anywhere.
	full := j.N >= playRows && (e.Kind != core.AddItems || e.Last)
	if full || e.Last && !p.joins {
		return p.flush()
	}
	return nil
}

// joinable reports whether successive effects of a kind are the same as one effect with all rows.
func joinable(k core.EffectKind) bool {
	switch k {
	case core.PutPairs, core.PutEdges, core.DeleteEdges, core.AddItems:
		return true
	}
	return false
}

func (p *player) flush() error {
	j := &p.joined
	if j.N == 0 {
		return nil
	}
	err := p.apply(j)
	*j = core.Effect{Keys: j.Keys[:0], Keys2: j.Keys2[:0], Vals: j.Vals[:0]}
	return err
}

// apply applies an effect. If a table of fixed size is too small, apply returns weft.ErrOptions.
func (p *player) apply(e *core.Effect) error {
	err := p.table.Replay(p.ctx, e)
	if errors.Is(err, weft.ErrFull) {
		return fmt.Errorf("%w: the table is too small for the store: %w", weft.ErrOptions, err)
	}
	return err
}

// loadCheckpoint loads the checkpoint that a manifest names, and returns the number of loaded
// pairs.
func loadCheckpoint(ctx context.Context, fs fileSystem, m manifest, t core.Logged) (n int, err error) {
	if m.Checkpoint == 0 {
		return t.LoadCheckpoint(ctx, nil, 0, m.NextID)
	}
	name := checkpointName(m.Checkpoint)
	f, err := fs.Open(name)
	if errors.Is(err, iofs.ErrNotExist) {
		err = fmt.Errorf("%w: %s is missing", weft.ErrCorrupt, name)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	stream := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), int(min(size, 1<<20)))
	n, err = t.LoadCheckpoint(ctx, stream, m.Pairs, m.NextID)
	switch {
	case errors.Is(err, op.ErrFormat):
		return n, fmt.Errorf("%w: %s: %w", weft.ErrCorrupt, name, err)
	case errors.Is(err, weft.ErrFull):
		return n, fmt.Errorf("%w: the table is too small for the store: %w", weft.ErrOptions, err)
	case err == nil && n != m.Pairs:
		return n, fmt.Errorf("%w: %s has %d pairs, and the manifest says %d", weft.ErrCorrupt, name,
			n, m.Pairs)
	}
	return n, err
}
