// Package arrow converts Arrow arrays and record batches to columns, which weft processes, and
// converts result columns back. It uses [arrow-go]. The package is a separate module, so that
// programs without Arrow do not depend on arrow-go.
//
// [Column] returns a view of the array's memory: values, offsets and validity are not copied. A
// slice of an array becomes a slice of a column. These are copied:
//
//   - booleans, which are bits in Arrow and bytes in a column;
//   - headers of string and binary views, 16 bytes per value, but not the bytes of the values;
//   - the values of a dictionary, one per row, if they have a fixed size. If they are byte strings,
//     the codes are copied ([column.OfCodes]), or string headers if the dictionary has nulls. See
//     [Dictionary];
//   - values that are not aligned to their size, which may occur in mapped files.
//
// Types that Arrow stores as integers become integer columns: dates, times, timestamps, durations,
// decimals of 32 and 64 bits. Wider decimals and intervals become byte strings of one width. These
// byte strings can be keys, but they do not sort like the numbers. A column does not record its
// Arrow type, so the caller of [Array] passes the type. [Numeric] reports whether sums of a type
// are meaningful. Half floats, lists, structs, maps, unions and run-end encoded arrays are errors.
//
// A column does not retain the array. Memory on Go's heap, which arrow-go uses by default, lives as
// long as the column. Memory of other allocators and of mapped files is valid only while the array
// is.
//
// [OpenIPC] reads Arrow's own files and streams. It returns errors for damaged files, on which
// arrow-go panics or exhausts memory. Package parquet, in this module, reads and writes Parquet
// files without arrow-go.
//
// [arrow-go]: https://github.com/apache/arrow-go
package arrow
