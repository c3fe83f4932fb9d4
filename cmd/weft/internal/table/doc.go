// Package table reads and writes tables for the command: CSV, TSV, JSON, Parquet and Arrow files, text
// that package compress can read. [Open] looks at the beginning of files, [Table.Batches] reads the columns
// that are asked for, on all cores, as batches of columns in the order of the rows.
//
// A text format says nothing of types. Those of a file's columns are found in its first block, of 1 MiB:
// int64 if all values are integers as they would be written, float64 if they are numbers, bool if they are
// true and false, else text; columns without values are text. A later value of another type is a
// [Widening]: the table is read again with the wider type, if it can be. Columns that are to be numbers,
// because they are added up, are never text: there what is no number makes a bad row.
//
// A bad row is an error with file and line, or its lines are skipped and counted, by [Options.SkipBad]. A cutter
// reads a file from its beginning to its end and finds blocks of whole rows, and rows whose quotes or brackets are
// wrong; these it marks, so that parsers on several cores have the same rows. What follows a bad row is read
// as after a good one, from the next line on.
//
// Standard input and pipes are copied to a temporary file as they are read, so that they can be read again.
package table
