package beam

import (
	"errors"
	"fmt"
	"time"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// units are Arrow's units of time that Parquet files have.
var units = map[time.Duration]goarrow.TimeUnit{
	time.Millisecond: goarrow.Millisecond,
	time.Microsecond: goarrow.Microsecond,
	time.Nanosecond:  goarrow.Nanosecond,
}

// arrowField returns the field of blocks for a field of a file that columns can hold.
func arrowField(f parquet.Field) (goarrow.Field, error) {
	field := goarrow.Field{Name: f.Name, Nullable: true}
	switch t := f.Type; t.Kind {
	case parquet.Text:
		field.Type = goarrow.BinaryTypes.String
	case parquet.Fixed:
		field.Type = &goarrow.FixedSizeBinaryType{ByteWidth: t.Width}
	case parquet.Date:
		field.Type = goarrow.FixedWidthTypes.Date32
	case parquet.Time:
		field.Type = &goarrow.Time64Type{Unit: units[t.Unit]}
		if t.Column == column.Int32 {
			field.Type = &goarrow.Time32Type{Unit: units[t.Unit]}
		}
	case parquet.Timestamp:
		zone := ""
		if t.UTC {
			zone = "UTC"
		}
		field.Type = &goarrow.TimestampType{Unit: units[t.Unit], TimeZone: zone}
	case parquet.Null:
		field.Type = goarrow.Null
	default: // Number, Bool and Binary
		arr, err := arrow.Array(nullOf(t.Column).Slice(0, 0), nil)
		if err != nil {
			return field, fmt.Errorf("column %q: %w", f.Name, err)
		}
		field.Type = arr.DataType()
	}
	return field, nil
}

// parquetField returns the field of a file for a field of blocks.
func parquetField(f goarrow.Field) (parquet.Field, error) {
	storage, err := arrow.Storage(f.Type)
	is := parquet.Type{Column: storage}
	switch t := f.Type.(type) {
	case *goarrow.StringType, *goarrow.LargeStringType, *goarrow.StringViewType:
		is.Kind = parquet.Text
	case *goarrow.BinaryType, *goarrow.LargeBinaryType, *goarrow.BinaryViewType:
		is.Kind = parquet.Binary
	case *goarrow.FixedSizeBinaryType:
		is.Kind, is.Width = parquet.Fixed, t.ByteWidth
	case *goarrow.BooleanType:
		is.Kind = parquet.Bool
	case *goarrow.NullType:
		is.Kind = parquet.Null
	case *goarrow.Date32Type:
		is.Kind = parquet.Date
	case *goarrow.Time32Type:
		is.Kind, is.Unit = parquet.Time, t.Unit.Multiplier()
	case *goarrow.Time64Type:
		is.Kind, is.Unit = parquet.Time, t.Unit.Multiplier()
	case *goarrow.TimestampType:
		is.Kind, is.Unit, is.UTC = parquet.Timestamp, t.Unit.Multiplier(), t.TimeZone != ""
	default:
		if err == nil {
			err = arrow.Numeric(f.Type)
		}
	}
	if err == nil && is.Unit == time.Second {
		err = errors.New("files have no times in seconds")
	}
	if err != nil {
		return parquet.Field{}, fmt.Errorf("column %q has type %v, which is not written to Parquet: "+
			"%w: %w",
			f.Name, f.Type, weft.ErrOptions, err)
	}
	return parquet.Field{Name: f.Name, Type: is}, nil
}
