// Package table reads and writes tables for the command, in CSV, TSV, JSON, Parquet and Arrow
// files. Text may be compressed, see package compress. [Open] reads the beginning of files.
// [Table.Batches] reads the requested columns on all cores. It returns them as batches, in the
// order of the rows.
//
// Text formats have no types. A column of text is read in one or more forms: see [Form]. For
// example, a value is compared and printed as it is written, but added up as a number. The type for
// a form is the narrowest that holds all values without changing one. It is guessed from the first
// block, of 1 MiB. A later value of another type is a [Widening], and a later member of JSON is an
// [UnknownMember]. [Table.Adapt] records it, and the caller reads the table again. A value that
// fits no type is an error with file and line.
//
// A bad row is an error with file and line. With [Options.SkipBad] its lines are skipped and
// counted. A cutter scans each file sequentially, and splits it into blocks of whole rows. It marks
// rows with wrong quotes or brackets, so that the result does not depend on the number of cores
// that parse blocks. Reading continues on the line that follows a bad row.
//
// Standard input and pipes are copied to a temporary file while they are read, so that they can be
// read again.
package table
