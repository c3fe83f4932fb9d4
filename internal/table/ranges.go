package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Range is a part of a table that can be read separately: row groups of a Parquet file, lines of a
// text file, or a whole file.
type Range struct {
	Number int   `json:"number"` // index, from 0, in the order of rows
	File   int   `json:"file"`   // index of the file
	Lo     int64 `json:"lo"`     // first row group, or offset in a text file
	Hi     int64 `json:"hi"`     // end of the range; 0 means the whole file
	// Bytes is the approximate number of bytes to read. A range of a text file contains the lines
	// that begin in it.
	Bytes int64 `json:"bytes"`
}

// ranged reports whether the range is only a part of its file.
func (r Range) ranged() bool { return r.Hi > 0 }

// rangeRows bounds the rows of a range. The first ordinals of consecutive ranges differ by
// rangeRows.
const rangeRows = 1 << 40

// Ranges splits Parquet files into row groups, and text files into ranges of about size bytes. It
// splits text only if each row is a line: JSON with an object on each line, and CSV with
// [Options.Lines]. It does not split compressed text, UTF-16, text with a byte order mark, streams
// and Arrow files. The ranges depend only on the files and options.
func (t *Table) Ranges(size int64) ([]Range, error) {
	var all []Range
	for k, s := range t.sources {
		ranges, err := s.ranges(max(size, 1))
		if err != nil {
			return nil, err
		}
		for _, r := range ranges {
			r.Number, r.File = len(all), k
			all = append(all, r)
		}
	}
	return all, nil
}

// SelectRanges restricts Batches to the given ranges, which must be in ascending order.
func (t *Table) SelectRanges(ranges []Range) {
	t.selected = ranges
	if ranges == nil {
		t.selected = []Range{}
	}
}

func (t *Table) selectedRanges() []Range {
	if t.selected != nil {
		return t.selected
	}
	all := make([]Range, len(t.sources))
	for k := range all {
		all[k] = Range{Number: k, File: k}
	}
	return all
}

// looksStrings is a bit of Looks. It is set if the column contains JSON strings, so that JSON
// output writes its values as strings, too.
const looksStrings = 1 << 32

// Looks returns the kinds of values seen in each column. Adopt adds them to a table of the same
// files.
func (t *Table) Looks() []uint64 {
	looks := make([]uint64, len(t.columns))
	for i := range t.columns {
		looks[i] = uint64(t.columns[i].kinds)
		if t.columns[i].strings.Load() {
			looks[i] |= looksStrings
		}
	}
	return looks
}

// Adopt adds the kinds of values that other tables of the same files have found in other ranges.
// looks combines results of Looks by bitwise or. If the types of columns change, rows must be read
// again.
func (t *Table) Adopt(looks []uint64) error {
	if len(looks) != len(t.columns) {
		return fmt.Errorf(
			"%d columns here, but %d where another part of the files is read; are they the same files?",
			len(t.columns),
			len(looks),
		)
	}
	for i, k := range looks {
		t.columns[i].kinds |= kinds(k)
		if k&looksStrings != 0 {
			t.columns[i].strings.Store(true)
		}
	}
	return nil
}

func (s *typed) ranges(int64) ([]Range, error) {
	var all []Range
	total := int64(0)
	for _, rows := range s.groups {
		total += rows
	}
	for i, rows := range s.groups {
		bytes := float64(s.size) * float64(rows) / float64(max(total, 1))
		all = append(all, Range{Lo: int64(i), Hi: int64(i) + 1, Bytes: int64(bytes)})
	}
	if all == nil {
		all = []Range{{Bytes: s.size}}
	}
	return all, nil
}

// ranges implements source. The first range contains the header, and all text that Open has
// examined.
func (s *textSource) ranges(size int64) ([]Range, error) {
	length := s.in.size
	n := length / max(size, s.sampled)
	if n > 1 {
		lines, err := s.lines()
		if err != nil {
			return nil, s.in.failed(err)
		}
		if !lines {
			n = 1
		}
	}
	if n <= 1 {
		return []Range{{Bytes: length}}, nil
	}
	var all []Range
	at := func(i int64) int64 { return length/n*i + length%n*i/n }
	for i := range n {
		all = append(all, Range{Lo: at(i), Hi: at(i + 1), Bytes: at(i+1) - at(i)})
	}
	return all, nil
}

// lines reports whether each row is a line of the file, without any conversion.
func (s *textSource) lines() (bool, error) {
	if s.format == JSON && s.nested || s.format != JSON && !s.opts.Lines {
		return false, nil
	}
	ctx := context.Background()
	f, err := s.in.files.Open(ctx, s.in.name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, err := s.in.openText(ctx)
	if err != nil {
		return false, err
	}
	defer r.Close()
	var raw [64]byte
	n, err := f.ReadAt(raw[:], 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	text, err := r.Peek(n)
	if err != nil && err != io.EOF {
		return false, err
	}
	return bytes.Equal(raw[:n], text), nil
}

// section opens the lines that begin in a range.
func (s *textSource) section(
	ctx context.Context,
	r Range,
) (section *io.SectionReader, f File, err error) {
	if f, err = s.in.files.Open(ctx, s.in.name); err != nil {
		return nil, nil, s.in.failed(err)
	}
	lo, err := lineStart(f, r.Lo)
	hi := lo
	if err == nil {
		hi, err = lineStart(f, r.Hi)
	}
	if err != nil {
		return nil, nil, s.in.failed(errors.Join(err, f.Close()))
	}
	return io.NewSectionReader(f, lo, hi-lo), f, nil
}

// lineStart returns the offset of the first line that begins at or after an offset.
func lineStart(f io.ReaderAt, at int64) (int64, error) {
	if at == 0 {
		return 0, nil
	}
	buf := make([]byte, 1<<16)
	for from := at - 1; ; {
		n, err := f.ReadAt(buf, from)
		if end := lineEnd(buf[:n], 0); end >= 0 {
			return from + int64(end), nil
		}
		if err == io.EOF {
			return from + int64(n), nil
		}
		if err != nil {
			return 0, err
		}
		from += int64(n) - 1 // a \n may follow a \r in the last byte
	}
}

// linesBefore returns the number of lines before a range, for line numbers in errors. If it cannot
// read them, it returns 0.
func (s *textSource) linesBefore(ctx context.Context, r Range) int {
	if r.Lo == 0 {
		return 0
	}
	section, f, err := s.section(ctx, Range{Hi: r.Lo})
	if err != nil {
		return 0
	}
	defer f.Close()
	n, buf, returned := 0, make([]byte, 1<<16), false
	for {
		m, err := section.Read(buf)
		if m > 0 {
			n += lineEnds(buf[:m])
			if returned && buf[0] == '\n' {
				n--
			}
			returned = buf[m-1] == '\r'
		}
		if err != nil {
			return n
		}
	}
}

// countRows sets the ordinals of batches in a range.
func countRows(r Range, batches iter.Seq2[Batch, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		at := uint64(r.Number) * rangeRows
		for b, err := range batches {
			b.At = at
			at += uint64(b.Rows)
			if !yield(b, err) {
				return
			}
		}
	}
}
