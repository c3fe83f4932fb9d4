// Package table reads and writes tables for the command: CSV, TSV, JSON lines, Parquet and Arrow files,
// text compressed by gzip or zstd. [Open] looks at the beginning of files, [Table.Batches] reads the columns
// that are asked for, on all cores, as batches of columns in the order of the rows.
//
// A text format says nothing of types. Those of a file's columns are found in its first block, of 1 MiB:
// int64 if all values are integers as they would be written, float64 if they are numbers, bool if they are
// true and false, else text; columns without values are text. A later value of another type is a
// [Widening]: the table is read again with the wider type, if it can be. Columns that are to be numbers,
// because they are added up, are never text: there what is no number makes a bad row.
//
// A bad row is an error with file and line, or skipped and counted, by [Options.SkipBad].
package table
