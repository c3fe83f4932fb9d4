// Package table reads and writes tables for the command: CSV, TSV, JSON, Parquet and Arrow files,
// text that package compress can read. [Open] looks at the beginning of files, [Table.Batches]
// reads the columns that are asked for, on all cores, as batches of columns in the order of the
// rows.
//
// A text format says nothing of types. Its columns are read in forms: see [Form]. A value is
// compared and printed as it is written, and added up as a number, whatever else the column has or
// is used for. The type of a form is the narrowest that has all values without changing one. It is
// guessed from the first block, of 1 MiB. A later value of another type is a [Widening], and a
// later member of JSON a [LateMember]: [Table.Adapt] takes note of it, and the table is read again.
// What no type has is an error with file and line.
//
// A bad row is an error with file and line, or its lines are skipped and counted, by
// [Options.SkipBad]. A cutter reads a file from its beginning to its end and finds blocks of whole
// rows, and rows whose quotes or brackets are wrong; these it marks, so that parsers on several
// cores have the same rows. What follows a bad row is read as after a good one, from the next line
// on.
//
// Standard input and pipes are copied to a temporary file as they are read, so that they can be
// read again.
package table
