// Package parquet reads columns of Parquet files for weft, and writes columns to Parquet files. It
// does not depend on arrow-go: [parquet-go] decodes metadata, and this package decodes pages.
//
// [Open] reads the metadata of a file. [File.Columns] reads the requested fields, row group by row
// group, on all cores. [File.Filtered] omits rows that a filter rejects, such as the filter of a
// join. It skips row groups and pages by their statistics. [Writer] writes files that any reader
// accepts.
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
// An INT96 with a finer resolution than microseconds is an error, and so is an integer that exceeds
// the width stated in the file. Unknown logical types leave values unchanged. Decimals, groups,
// lists and maps are not supported. They are errors only if the field is requested: see
// [Field.Err].
//
// # Cost
//
// Text and byte strings that the file stores in dictionaries become columns of codes
// ([column.OfCodes]). Packages intern and group then process each value of a dictionary once, and
// not once per row. Reading takes time for the requested fields only, and memory for about two
// batches per field. All encodings except BIT_PACKED levels, and all compressions except LZO, are
// supported.
//
// Damaged files are errors. Sizes are checked before memory is allocated, and pages by their
// checksums if present.
//
// [parquet-go]: https://github.com/parquet-go/parquet-go
package parquet
