package beam

import (
	"context"
	"errors"
	"fmt"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/beam/internal/beamfile"
	"github.com/weftgo/weft/column"
	tables "github.com/weftgo/weft/internal/table"
)

// readPlan contains all that workers need to read a range. Beam sends it to them.
type readPlan struct {
	Options ReadOptions
	First   string // name of the first file
	Sampled int    // number of files that determined the columns
	Typed   bool
	Fields  []readField // all columns of the sampled files
	Reads   []readInput // columns to read
	Schema  []byte      // schema of blocks, encoded by encodeSchema
}

type readField struct {
	Name  string
	Nth   int    // number of preceding columns with the same name
	Arrow string // Arrow type; empty for text
	Force tables.Form
	Looks uint64 // value that table.Looks returns
}

type readInput struct {
	Field int
	Form  tables.Form
	Type  column.Type // type of the column that is read
}

// look determines columns and their types from the first files.
func (p *readPlan) look(ctx context.Context, names []string) error {
	opts, err := p.Options.table()
	if err != nil {
		return err
	}
	opts.Text, opts.Number = p.Options.Text, p.Options.Number
	t, n, err := beamfile.Sample(ctx, names, opts)
	if err != nil {
		return err
	}
	p.First, p.Sampled, p.Typed = names[0], n, t.Typed()
	return errors.Join(p.set(ctx, t), t.Close())
}

// set fills the plan from the columns of a table.
func (p *readPlan) set(ctx context.Context, t *tables.Table) error {
	columns := p.Options.Columns
	at := make([]int, len(columns))
	for i, c := range columns {
		var err error
		if at[i], err = t.Find(ctx, c.Name); err != nil {
			return fmt.Errorf("%w: %w", weft.ErrOptions, err)
		}
	}
	nth := map[string]int{}
	for i, f := range t.Fields() {
		field := readField{Name: f.Name, Nth: nth[f.Name], Force: t.Forced(i), Looks: t.Looks()[i]}
		nth[f.Name]++
		if p.Typed {
			field.Arrow = f.Arrow.String()
		}
		p.Fields = append(p.Fields, field)
		if len(p.Options.Columns) == 0 {
			columns, at = append(columns, ReadColumn{Name: f.Name}), append(at, i)
		}
	}
	var fields []goarrow.Field
	for i, c := range columns {
		f := t.Fields()[at[i]]
		if f.Err() != nil {
			return fmt.Errorf("column %s: %w; name the columns to read", f.Name, f.Err())
		}
		if c.As != "" {
			f.Name = c.As
		}
		r := t.Reading(at[i], forms[c.Form])
		in := readInput{Field: at[i], Form: r.Form, Type: t.TypeOf(r)}
		if !p.Typed {
			f.Arrow = textType(in.Type)
		}
		p.Reads = append(p.Reads, in)
		fields = append(fields, plain(goarrow.Field{Name: f.Name, Type: f.Arrow}))
	}
	if p.Options.Ordinals != "" {
		fields = append(fields, goarrow.Field{Name: p.Options.Ordinals,
			Type: goarrow.PrimitiveTypes.Uint64, Nullable: true})
	}
	if err := p.unique(fields); err != nil {
		return err
	}
	var err error
	p.Schema, err = encodeSchema(goarrow.NewSchema(fields, nil))
	return err
}

// unique returns an error if another column has a name that the options set.
func (p *readPlan) unique(fields []goarrow.Field) error {
	n := map[string]int{}
	for _, f := range fields {
		n[f.Name]++
	}
	for _, c := range p.Options.Columns {
		if c.As != "" && n[c.As] > 1 {
			return fmt.Errorf("%w: As %q is the name of %d columns", weft.ErrOptions, c.As, n[c.As])
		}
	}
	if name := p.Options.Ordinals; n[name] > 1 && name != "" {
		return fmt.Errorf("%w: Ordinals %q is the name of another column", weft.ErrOptions, name)
	}
	return nil
}

// textType returns the type that a text column has in blocks.
func textType(t column.Type) goarrow.DataType {
	if t == column.Bytes {
		return goarrow.BinaryTypes.String
	}
	arr, err := arrow.Array(tables.Empty(t), nil)
	if err != nil {
		panic(err) // package table returns no other types
	}
	defer arr.Release()
	return arr.DataType()
}
