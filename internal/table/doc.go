// Package table reads and writes tables for the command: CSV, TSV, JSON, Parquet and Arrow files.
// Text may be in the compressions of package compress. [Open] reads the beginning of files.
// [Table.Batches] reads the requested columns, on all cores, as batches of columns in the order of
// the rows.
//
// A text format has no types. Its columns are read in forms: see [Form]. A value is compared and
// printed as it is written, and added up as a number, independent of the rest of the column and of
// its other uses. The type of a form is the narrowest that holds all values without changing one.
// It is guessed from the first block, of 1 MiB. A later value of another type is a [Widening], and
// a later member of JSON a [UnknownMember]: [Table.Adapt] records it, and the table is read again.
// A value that fits no type is an error with file and line.
//
// A bad row is an error with file and line, or its lines are skipped and counted, by
// [Options.SkipBad]. A cutter reads a file from its beginning to its end and finds blocks of whole
// rows. It marks rows with wrong quotes or brackets, so that parsers on several cores have the same
// rows. Reading continues on the line after a bad row, as after a good one.
//
// Standard input and pipes are copied to a temporary file as they are read, so that they can be
// read again.
package table
