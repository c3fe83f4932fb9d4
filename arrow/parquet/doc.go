// Package parquet reads columns of Parquet files for the jobs over columns of weft, and writes
// their results. It links no part of arrow-go: metadata is decoded by [parquet-go], and pages are
// decoded here.
//
// [Open] reads the metadata of a file, and [File.Columns] the fields that are asked for, row group
// by row group, on all cores. [File.Filtered] leaves out rows that a filter does not pass, such as
// that of a join: it skips row groups and pages by their statistics. [Writer] writes files that any
// reader takes.
//
// # Types
//
//	file                                          column
//	INT32, INT64 and their widths and signs       Int8 to Int64, Uint8 to Uint64
//	FLOAT, DOUBLE                                 Float32, Float64
//	FLOAT16                                       Float32
//	BOOLEAN                                       Bool
//	BYTE_ARRAY: text, JSON, geometry, anything    Bytes
//	FIXED_LEN_BYTE_ARRAY: UUID, anything          Bytes, all of one width
//	DATE                                          Int32, days since 1970-01-01
//	TIME, TIMESTAMP                               Int32 or Int64, in the unit of [Type]
//	INT96                                         Int64, microseconds since 1970-01-01
//	UNKNOWN (always null)                         Bytes
//
// An INT96 that is finer than microseconds is an error, and so is an integer beyond the width that
// the file states. Meanings that this package does not know leave values what they are. Decimals
// are an error until columns have them, and groups, lists and maps always are. Both are errors only
// where the field is asked for: see [Field.Err].
//
// # Cost
//
// Text and byte strings that the file keeps in dictionaries stay codes ([column.OfCodes]), so that
// packages intern and group look at the values of a dictionary and not at those of each row.
// Reading takes time for the fields asked for, however many others there are, and memory for about
// two batches of each. All encodings but BIT_PACKED levels, and all compressions but LZO, are read.
//
// Damaged files are errors: sizes are checked before there is memory for them, and pages by their
// checksums where they have one.
//
// [parquet-go]: https://github.com/parquet-go/parquet-go
package parquet
