package arrow

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/column"
)

// plain maps Arrow types to the columns that store their values unchanged.
var plain = map[arrow.Type]column.Type{
	arrow.INT8: column.Int8, arrow.INT16: column.Int16, arrow.INT32: column.Int32, arrow.INT64: column.Int64,
	arrow.UINT8: column.Uint8, arrow.UINT16: column.Uint16, arrow.UINT32: column.Uint32, arrow.UINT64: column.Uint64,
	arrow.FLOAT32: column.Float32, arrow.FLOAT64: column.Float64, arrow.BOOL: column.Bool,
	arrow.STRING: column.Bytes, arrow.LARGE_STRING: column.Bytes, arrow.STRING_VIEW: column.Bytes,
	arrow.BINARY: column.Bytes, arrow.LARGE_BINARY: column.Bytes, arrow.BINARY_VIEW: column.Bytes, arrow.FIXED_SIZE_BINARY: column.Bytes,
	arrow.NULL: column.Bytes,
}

// stored maps Arrow types that give integers or bytes another meaning, such as a date, to their
// columns.
var stored = map[arrow.Type]column.Type{
	arrow.DATE32: column.Int32, arrow.DATE64: column.Int64, arrow.TIME32: column.Int32, arrow.TIME64: column.Int64,
	arrow.TIMESTAMP: column.Int64, arrow.DURATION: column.Int64, arrow.INTERVAL_MONTHS: column.Int32,
	arrow.DECIMAL32: column.Int32, arrow.DECIMAL64: column.Int64,
	arrow.DECIMAL128: column.Bytes, arrow.DECIMAL256: column.Bytes,
	arrow.INTERVAL_DAY_TIME: column.Bytes, arrow.INTERVAL_MONTH_DAY_NANO: column.Bytes,
}

// Storage returns the type of the columns that hold values of Arrow type t. It returns an error if
// columns do not support t.
func Storage(t arrow.DataType) (column.Type, error) {
	if t != nil {
		t = meaning(t)
		if c, ok := plain[t.ID()]; ok {
			return c, nil
		}
		if c, ok := stored[t.ID()]; ok {
			return c, nil
		}
	}
	return column.None, fmt.Errorf("arrow: columns cannot hold values of type %v", t)
}

// Numeric returns nil if columns hold the values of t themselves, as integers or floats. Sums and
// means of such columns are sums and means of the values. For other types it returns an error: a
// decimal is stored as a scaled integer, and a sum of dates means nothing. Counts, first and last
// values are meaningful for all types.
func Numeric(t arrow.DataType) error {
	c, err := Storage(t)
	if err != nil {
		return err
	}
	if _, is := plain[meaning(t).ID()]; is && (c.Integer() || c.Float()) {
		return nil
	}
	return fmt.Errorf("arrow: values of type %v cannot be added up: a column has them as %v", t, c)
}

// Boolean returns nil if the values of t are true or false.
func Boolean(t arrow.DataType) error {
	if c, err := Storage(t); err != nil || c == column.Bool {
		return err
	}
	return fmt.Errorf("arrow: values of type %v are not true or false", t)
}

// Ordered returns nil if columns sort like the values of t, so that minima and maxima are correct.
// It returns an error for wide decimals and intervals, which columns store as little-endian bytes.
func Ordered(t arrow.DataType) error {
	c, err := Storage(t)
	if err != nil {
		return err
	}
	if _, is := stored[meaning(t).ID()]; is && c == column.Bytes {
		return fmt.Errorf("arrow: values of type %v cannot be ordered: a column has them as bytes", t)
	}
	return nil
}

// meaning replaces an extension type by its storage type, and a dictionary type by its value type.
// It returns other types unchanged.
func meaning(t arrow.DataType) arrow.DataType {
	for {
		switch of := t.(type) {
		case arrow.ExtensionType:
			t = of.StorageType()
		case *arrow.DictionaryType:
			t = of.ValueType
		default:
			return t
		}
	}
}

func typeOf(c column.Column) arrow.DataType {
	switch c.Type() {
	case column.Bytes:
		if c.Width() > 0 {
			return &arrow.FixedSizeBinaryType{ByteWidth: c.Width()}
		}
		if _, large, _ := c.Offsets(); large != nil {
			return arrow.BinaryTypes.LargeBinary
		}
		return arrow.BinaryTypes.Binary
	case column.None:
		return arrow.Null
	case column.Bool:
		return arrow.FixedWidthTypes.Boolean
	}
	return numbers[c.Type()]
}

var numbers = map[column.Type]arrow.DataType{
	column.Int8: arrow.PrimitiveTypes.Int8, column.Int16: arrow.PrimitiveTypes.Int16,
	column.Int32: arrow.PrimitiveTypes.Int32, column.Int64: arrow.PrimitiveTypes.Int64,
	column.Uint8: arrow.PrimitiveTypes.Uint8, column.Uint16: arrow.PrimitiveTypes.Uint16,
	column.Uint32: arrow.PrimitiveTypes.Uint32, column.Uint64: arrow.PrimitiveTypes.Uint64,
	column.Float32: arrow.PrimitiveTypes.Float32, column.Float64: arrow.PrimitiveTypes.Float64,
}
