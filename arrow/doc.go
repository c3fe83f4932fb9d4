// Package arrow converts Arrow arrays and record batches to columns for the jobs of weft, and
// results back, by [arrow-go]. It is a separate module, so that programs without Arrow do not
// depend on it.
//
// [Column] returns a view of the array's memory: values, offsets and validity are not copied, and
// slices of arrays are slices of columns. These are copied:
//
//   - booleans, which are bits in Arrow and bytes in a column;
//   - headers of string and binary views, 16 bytes a value, but not the bytes of values;
//   - the values of a dictionary, one per row, if they have a fixed size. Of byte strings the codes
//     are copied ([column.OfCodes]), or headers of strings if the dictionary has nulls. See
//     [Dictionary];
//   - values that are not aligned to their size, which may occur in mapped files.
//
// Types that Arrow stores as integers become integer columns: dates, times, timestamps, durations,
// decimals of 32 and 64 bits. Wider decimals and intervals become byte strings of one width. They
// are usable as keys, but not in the order of the numbers. A column does not record its Arrow type,
// so [Array] takes the type on the way back. [Numeric] reports whether sums of a type are
// meaningful. Half floats, lists, structs, maps, unions and run-end encoded arrays are errors.
//
// A column does not retain the array. Memory of Go's heap, which arrow-go uses by default, lives as
// long as the column. Memory of other allocators and of mapped files does not outlive the array.
//
// [OpenIPC] reads Arrow's own files and streams. It returns errors for damaged files, on which
// arrow-go panics or exhausts memory. Package parquet, in this module, reads and writes Parquet
// files without arrow-go.
//
// [arrow-go]: https://github.com/apache/arrow-go
package arrow
