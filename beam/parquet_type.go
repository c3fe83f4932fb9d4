package beam

import (
	"fmt"
	"time"

	goarrow "github.com/apache/arrow-go/v18/arrow"

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
