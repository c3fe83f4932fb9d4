package beam

import (
	"bytes"
	"fmt"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
)

// MaxBlock is the maximum size of blocks and partial states in bytes. A single row or group is
// never split, so it may exceed MaxBlock. Flink refuses elements of more than 10 MB.
const MaxBlock = 1 << 20

// Encode encodes a record batch as blocks of at most [MaxBlock] bytes. A batch without rows becomes
// one block, which contains only the schema. If package arrow does not support a column, the error
// names it.
func Encode(rec goarrow.RecordBatch) ([][]byte, error) {
	columns, err := arrow.Columns(rec)
	if err != nil {
		return nil, fmt.Errorf("beam: Encode: %w", err)
	}
	encode := func(lo, hi int, size int64) ([]byte, error) {
		part := rec.NewSlice(int64(lo), int64(hi))
		defer part.Release()
		return encodeRecords(part, size)
	}
	blocks, err := cut(int(rec.NumRows()), sizeOf(columns), encode)
	if err != nil {
		return nil, fmt.Errorf("beam: Encode: %w", err)
	}
	return blocks, nil
}

// EncodeColumns encodes columns of equal length and their names as blocks. See [Encode]. Byte
// strings get Arrow's binary type, which does not require text.
func EncodeColumns(names []string, columns []column.Column) ([][]byte, error) {
	if len(names) != len(columns) {
		return nil, fmt.Errorf("beam: EncodeColumns: %w: %d names of %d columns", weft.ErrOptions,
			len(names), len(columns))
	}
	fields := make([]goarrow.Field, len(columns))
	for i, c := range columns {
		arr, err := arrow.Array(c.Slice(0, 0), nil)
		if err != nil {
			return nil, fmt.Errorf("beam: EncodeColumns: column %q: %w", names[i], err)
		}
		fields[i] = goarrow.Field{Name: names[i], Type: arr.DataType(), Nullable: true}
	}
	blocks, err := encodeColumns(columns, goarrow.NewSchema(fields, nil))
	if err != nil {
		return nil, fmt.Errorf("beam: EncodeColumns: %w", err)
	}
	return blocks, nil
}

func encodeColumns(columns []column.Column, schema *goarrow.Schema) ([][]byte, error) {
	rows := 0
	if len(columns) > 0 {
		rows = columns[0].Len()
	}
	part := make([]column.Column, len(columns))
	return cut(rows, sizeOf(columns), func(lo, hi int, size int64) ([]byte, error) {
		for i, c := range columns {
			part[i] = c.Slice(lo, hi)
		}
		rec, err := arrow.RecordBatch(part, schema)
		if err != nil {
			return nil, err
		}
		defer rec.Release()
		return encodeRecords(rec, size)
	})
}

// cut encodes rows as pieces of at most MaxBlock bytes. Each call of encode encodes rows lo to
// hi-1. size estimates the encoded bytes of the rows. A piece that turns out larger is halved.
func cut(rows int, size int64, encode func(lo, hi int, size int64) ([]byte, error)) (
	pieces [][]byte, err error,
) {
	pieceRows := max(rows, 1)
	if n := size/(MaxBlock-MaxBlock/16) + 1; n > 1 {
		pieceRows = max(int((int64(rows)+n-1)/n), 1)
	}
	var add func(lo, hi int) error
	add = func(lo, hi int) error {
		b, err := encode(lo, hi, size*int64(hi-lo)/int64(max(rows, 1)))
		switch {
		case err != nil:
			return err
		case len(b) <= MaxBlock || hi-lo < 2:
			pieces = append(pieces, b)
			return nil
		}
		mid := lo + (hi-lo)/2
		if err := add(lo, mid); err != nil {
			return err
		}
		return add(mid, hi)
	}
	for lo := 0; lo == 0 || lo < rows; lo += pieceRows {
		if err := add(lo, min(lo+pieceRows, rows)); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// sizeOf estimates the size of encoded columns in bytes.
func sizeOf(columns []column.Column) (size int64) {
	for _, c := range columns {
		n := int64(c.Len())
		if c.HasNulls() {
			size += n / 8
		}
		codes, dict := c.Codes()
		small, large, _ := c.Offsets()
		switch {
		case c.Width() > 0:
			size += n * int64(c.Width())
		case codes != nil:
			size += 4*n + sizeOf([]column.Column{dict})
		case len(small) > 0:
			size += 4*n + int64(small[n]-small[0])
		case len(large) > 0:
			size += 8*n + large[n] - large[0]
		default:
			size += 8 * n
			for i := range c.Len() {
				if !c.Null(i) {
					size += int64(len(c.Bytes(i)))
				}
			}
		}
	}
	return size
}

// encodeRecords encodes a record batch as a stream. size estimates the length of the stream, which
// is the memory to allocate.
func encodeRecords(rec goarrow.RecordBatch, size int64) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, size+1024+256*rec.NumCols()))
	w := ipc.NewWriter(b, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
