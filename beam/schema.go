package beam

import (
	"bytes"
	"fmt"
	"slices"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// rightSuffix is appended to the name of a right column if a left column has the same name.
const rightSuffix = "_right"

// find returns the index of the field with each name.
func find(schema *goarrow.Schema, names []string) ([]int, error) {
	at := make([]int, len(names))
	for i, name := range names {
		found := schema.FieldIndices(name)
		switch len(found) {
		case 1:
			at[i] = found[0]
		case 0:
			all := make([]string, schema.NumFields())
			for j, f := range schema.Fields() {
				all[j] = f.Name
			}
			return nil, fmt.Errorf("%w: a block has no column %q; it has %q", weft.ErrOptions, name,
				all)
		default:
			return nil, fmt.Errorf("%w: a block has %d columns %q", weft.ErrOptions, len(found),
				name)
		}
	}
	return at, nil
}

// pick returns the columns at the given indexes of a record batch.
func pick(rec goarrow.RecordBatch, at []int) ([]column.Column, error) {
	columns := make([]column.Column, len(at))
	for i, j := range at {
		c, err := arrow.Column(rec.Column(j))
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", rec.Schema().Field(j).Name, err)
		}
		columns[i] = c
	}
	return columns, nil
}

// plain removes the properties of a field that may differ between blocks: metadata, whether nulls
// are allowed, and dictionaries, which become the type of their values.
func plain(f goarrow.Field) goarrow.Field {
	t := f.Type
	if d, ok := t.(*goarrow.DictionaryType); ok {
		t = d.ValueType
	}
	return goarrow.Field{Name: f.Name, Type: t, Nullable: true}
}

func withoutDictionaries(schema *goarrow.Schema) *goarrow.Schema {
	fields := slices.Clone(schema.Fields())
	for i, f := range fields {
		fields[i] = plain(f)
	}
	return goarrow.NewSchema(fields, nil)
}

// resultSchema returns the schema of the groups: keys, then aggregates. An aggregate gets the name
// that the command weft gives it.
func (p *groupPlan) resultSchema(
	block *goarrow.Schema, keys, values []int,
) (*goarrow.Schema, error) {
	var fields []goarrow.Field
	for _, at := range keys {
		fields = append(fields, plain(block.Field(at)))
	}
	for _, a := range p.Aggs {
		f := goarrow.Field{Name: group.Count.String(), Type: goarrow.PrimitiveTypes.Int64,
			Nullable: true}
		if a.Func != group.Rows {
			of := plain(block.Field(values[a.Column]))
			t, err := typeOf(a.Func, of.Type)
			if err != nil {
				return nil, fmt.Errorf("%w: %v of column %q: %w", weft.ErrOptions, a.Func, of.Name,
					err)
			}
			f.Name, f.Type = a.Func.String()+":"+of.Name, t
		}
		fields = append(fields, f)
	}
	return goarrow.NewSchema(fields, nil), nil
}

// typeOf returns the type of the results of f for values of the given type.
func typeOf(f group.Func, values goarrow.DataType) (goarrow.DataType, error) {
	storage, err := arrow.Storage(values)
	if err != nil {
		return nil, err
	}
	switch f {
	case group.Count:
		return goarrow.PrimitiveTypes.Int64, nil
	case group.Mean, group.Var, group.StdDev:
		return goarrow.PrimitiveTypes.Float64, arrow.Numeric(values)
	case group.AnyTrue, group.AllTrue:
		return goarrow.FixedWidthTypes.Boolean, arrow.Boolean(values)
	case group.Sum:
		sum := goarrow.PrimitiveTypes.Int64
		switch {
		case storage.Float():
			sum = goarrow.PrimitiveTypes.Float64
		case !storage.Signed():
			sum = goarrow.PrimitiveTypes.Uint64
		}
		return sum, arrow.Numeric(values)
	case group.Min, group.Max:
		return values, arrow.Ordered(values)
	}
	return values, nil
}

func joinSchema(left *goarrow.Schema, right []goarrow.Field) (*goarrow.Schema, error) {
	fields := slices.Clone(left.Fields())
	for _, f := range right {
		if left.HasField(f.Name) {
			f.Name += rightSuffix
		}
		for _, other := range fields {
			if other.Name == f.Name {
				return nil, fmt.Errorf("%w: joined rows would have two columns %q: rename one",
					weft.ErrOptions, f.Name)
			}
		}
		fields = append(fields, f)
	}
	return goarrow.NewSchema(fields, nil), nil
}

func encodeSchema(schema *goarrow.Schema) ([]byte, error) {
	var b bytes.Buffer
	if err := ipc.NewWriter(&b, ipc.WithSchema(schema)).Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeSchema(b []byte) (*goarrow.Schema, error) {
	rec, err := Decode(b)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return rec.Schema(), nil
}

func differ(a, b *goarrow.Schema) error {
	return fmt.Errorf("%w: blocks of one collection differ: one has %v, another %v",
		weft.ErrOptions,
		a.Fields(), b.Fields())
}
