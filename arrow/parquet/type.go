package parquet

import (
	"fmt"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// Kind is the meaning of a field's values.
type Kind uint8

// The kinds. Columns hold values of all kinds except the last three.
const (
	Number Kind = iota // integers and floats
	Bool
	Text      // UTF-8, if the writer is correct
	Binary    // byte strings of any length, including JSON and BSON
	Fixed     // byte strings of Width bytes, including UUIDs and intervals
	Date      // days since 1970-01-01
	Time      // time since midnight, in Unit
	Timestamp // time since 1970-01-01, in Unit
	Null      // every value is null
	Decimal   // number of Precision digits, with Scale of them after the decimal point
	Nested    // groups, lists and maps
	Unknown   // physical or logical type that is not supported
)

var kinds = [...]string{"number", "bool", "text", "binary", "fixed", "date", "time", "timestamp",
	"null", "decimal", "nested", "unknown"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// Type is the type of a field.
type Type struct {
	Kind Kind
	// type of the columns that hold the values; None for Decimal, Nested and Unknown
	Column column.Type

	Unit time.Duration // for Time and Timestamp: millisecond, microsecond or nanosecond
	// for Time and Timestamp: values are instants, not local clock times
	UTC              bool
	Width            int // for Fixed: bytes per value
	Precision, Scale int // for Decimal: digits, and digits after the decimal point
}

// String describes the type.
func (t Type) String() string {
	switch t.Kind {
	case Number:
		return t.Column.String()
	case Fixed:
		return fmt.Sprintf("fixed(%d)", t.Width)
	case Time, Timestamp:
		zone := ""
		if t.UTC {
			zone = ", UTC"
		}
		unit := map[time.Duration]string{time.Millisecond: "ms", time.Microsecond: "us",
			time.Nanosecond: "ns"}[t.Unit]
		return fmt.Sprintf("%v(%s%s)", t.Kind, unit, zone)
	case Decimal:
		return fmt.Sprintf("decimal(%d, %d)", t.Precision, t.Scale)
	}
	return t.Kind.String()
}

// Field is a field of a file's schema, which columns may be unable to hold.
type Field struct {
	Name string
	Type Type
}

// Err returns an error that states why columns cannot hold the field's values. It returns nil if
// they can.
func (f Field) Err() error {
	switch f.Type.Kind {
	case Decimal:
		return fmt.Errorf("parquet: field %q is a %v: columns cannot hold decimals yet", f.Name,
			f.Type)
	case Nested:
		return fmt.Errorf("parquet: field %q is nested: columns hold one value a row", f.Name)
	case Unknown:
		return fmt.Errorf("parquet: field %q has a type that is not supported", f.Name)
	}
	return nil
}

type leaf struct {
	Field
	index    int // index of its column chunk in each row group
	physical format.Type
	width    int // bytes per stored value; 0 for byte strings of variable length and for bits
	optional bool
	half     bool // values are floats of two bytes
	ordered  bool // statistics order values as columns do
}

// schemaOf returns the top-level fields of a schema. elements are its tree in prefix order.
func schemaOf(elements []format.SchemaElement) ([]leaf, error) {
	if len(elements) == 0 {
		return nil, fmt.Errorf("%w: no schema", errThrift)
	}
	var fields []leaf
	next, chunks := 1, 0
	for range elements[0].NumChildren.V {
		if next >= len(elements) {
			return nil, fmt.Errorf("%w: a schema that ends early", errThrift)
		}
		e := &elements[next]
		l := leaf{Field: Field{Name: e.Name, Type: Type{Kind: Nested}}, index: chunks}
		first := next
		for open := int64(1); open > 0; next++ {
			if next >= len(elements) {
				return nil, fmt.Errorf("%w: a schema that ends early", errThrift)
			}
			n := elements[next].NumChildren.V
			if n < 0 {
				return nil, fmt.Errorf("%w: a group of %d fields", errThrift, n)
			}
			if open += int64(n) - 1; n == 0 && elements[next].Type.Valid {
				chunks++
			}
		}
		if next == first+1 && e.Type.Valid && e.RepetitionType.V != format.Repeated {
			if err := l.describe(e); err != nil { // other fields of the file may be readable
				l.Type = Type{Kind: Unknown}
			}
		}
		fields = append(fields, l)
	}
	if next < len(elements) {
		return nil, fmt.Errorf("%w: %d elements of the schema belong to no field", errThrift,
			len(elements)-next)
	}
	return fields, nil
}

func (l *leaf) describe(e *format.SchemaElement) error {
	l.physical, l.optional = e.Type.V, e.RepetitionType.V == format.Optional
	t := &l.Type
	switch l.physical {
	case format.Boolean:
		*t = Type{Kind: Bool, Column: column.Bool}
	case format.Int32:
		*t, l.width = Type{Column: column.Int32}, 4
	case format.Int64:
		*t, l.width = Type{Column: column.Int64}, 8
	case format.Int96:
		*t, l.width = Type{Kind: Timestamp, Column: column.Int64, Unit: time.Microsecond,
			UTC: true}, 12
	case format.Float:
		*t, l.width = Type{Column: column.Float32}, 4
	case format.Double:
		*t, l.width = Type{Column: column.Float64}, 8
	case format.ByteArray:
		*t = Type{Kind: Binary, Column: column.Bytes}
	case format.FixedLenByteArray:
		l.width = int(e.TypeLength.V)
		if l.width <= 0 || l.width > maxWidth {
			return fmt.Errorf("values of %d bytes", l.width)
		}
		*t = Type{Kind: Fixed, Column: column.Bytes, Width: l.width}
	default:
		return fmt.Errorf("physical type %d", l.physical)
	}
	if logical := e.LogicalType.Value; logical != nil {
		l.setLogical(logical)
	} else if e.ConvertedType.Valid {
		l.setConverted(e.ConvertedType.V, int(e.Precision.V), int(e.Scale.V))
	}
	l.ordered = l.inOrder(e)
	return nil
}

// inOrder reports whether Parquet orders the values of a field as columns do: numbers by value, and
// byte strings by unsigned bytes. INT96, intervals and geometry have no order. A logical type that
// does not match the stored type may imply another order.
func (l *leaf) inOrder(e *format.SchemaElement) bool {
	unsigned := false
	switch v := e.LogicalType.Value.(type) {
	case nil:
		switch c := e.ConvertedType; {
		case !c.Valid:
		case c.V == deprecated.Interval:
			return false
		default:
			unsigned = c.V >= deprecated.Uint8 && c.V <= deprecated.Uint64
		}
	case *format.IntType:
		unsigned = !v.IsSigned
	case *format.Float16Type:
		return l.half
	case *format.StringType, *format.EnumType, *format.JsonType, *format.BsonType,
		*format.UUIDType, *format.DateType, *format.TimeType, *format.TimestampType:
	default:
		return false
	}
	return l.physical != format.Int96 && unsigned == (l.Type.Column.Integer() &&
		!l.Type.Column.Signed())
}

// maxWidth bounds byte strings that all have one length.
const maxWidth = 1 << 20

// setLogical sets the type of l according to the logical type in the schema. Logical types that are
// unknown, or do not match the stored type, have no effect.
func (l *leaf) setLogical(v format.LogicalTypeValue) {
	switch v := v.(type) {
	case *format.StringType, *format.EnumType:
		l.setBytes(Text)
	case *format.JsonType, *format.BsonType:
		l.setBytes(Binary)
	case *format.DecimalType:
		l.setDecimal(int(v.Precision), int(v.Scale))
	case *format.DateType:
		l.setDate()
	case *format.TimeType:
		l.setTime(Time, unitOf(v.Unit), v.IsAdjustedToUTC)
	case *format.TimestampType:
		l.setTime(Timestamp, unitOf(v.Unit), v.IsAdjustedToUTC)
	case *format.IntType:
		l.setInteger(int(v.BitWidth), v.IsSigned)
	case *format.NullType:
		l.Type = Type{Kind: Null, Column: column.Bytes}
	case *format.Float16Type:
		if l.physical == format.FixedLenByteArray && l.width == 2 {
			l.Type, l.half = Type{Column: column.Float32}, true
		}
	}
}

// setConverted sets the type of l according to a converted type, which older writers use instead of
// a logical type.
func (l *leaf) setConverted(c deprecated.ConvertedType, precision, scale int) {
	switch c {
	case deprecated.UTF8, deprecated.Enum:
		l.setBytes(Text)
	case deprecated.Json, deprecated.Bson:
		l.setBytes(Binary)
	case deprecated.Decimal:
		l.setDecimal(precision, scale)
	case deprecated.Date:
		l.setDate()
	case deprecated.TimeMillis:
		l.setTime(Time, time.Millisecond, true)
	case deprecated.TimeMicros:
		l.setTime(Time, time.Microsecond, true)
	case deprecated.TimestampMillis:
		l.setTime(Timestamp, time.Millisecond, true)
	case deprecated.TimestampMicros:
		l.setTime(Timestamp, time.Microsecond, true)
	case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		l.setInteger(8<<(c-deprecated.Int8), true)
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		l.setInteger(8<<(c-deprecated.Uint8), false)
	}
}

func (l *leaf) setBytes(k Kind) {
	if l.physical == format.ByteArray {
		l.Type.Kind = k
	}
}

func (l *leaf) setDecimal(precision, scale int) {
	l.Type = Type{Kind: Decimal, Precision: precision, Scale: scale}
}

func (l *leaf) setDate() {
	if l.physical == format.Int32 {
		l.Type.Kind = Date
	}
}

func (l *leaf) setTime(k Kind, unit time.Duration, utc bool) {
	short := k == Time && unit == time.Millisecond
	if short && l.physical == format.Int32 || !short && l.physical == format.Int64 && unit > 0 {
		l.Type.Kind, l.Type.Unit, l.Type.UTC = k, unit, utc
	}
}

func (l *leaf) setInteger(bits int, signed bool) {
	of := map[int]column.Type{8: column.Int8, 16: column.Int16, 32: column.Int32, 64: column.Int64}
	t, ok := of[bits]
	if !ok || (bits == 64) != (l.physical == format.Int64) || l.physical != format.Int32 &&
		l.physical != format.Int64 {
		return
	}
	if !signed {
		t += column.Uint8 - column.Int8
	}
	l.Type.Column = t
}

func unitOf(u format.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	case *format.NanoSeconds:
		return time.Nanosecond
	}
	return 0
}
