// Package arrow gives Arrow's arrays and record batches to the jobs over columns of weft, and
// takes their results back, by [arrow-go]. It is a module of its own, so that who does not use
// Arrow gets none of it.
//
// A column of [Column] is a view of the array's memory: values, offsets and validity are not
// copied, and slices of arrays are slices of columns. Copied are
//
//   - booleans, which are bits in Arrow and bytes in a column;
//   - headers of string and binary views, 16 bytes a value; the bytes of values are not;
//   - what a dictionary stands for: one value a row of fixed size. Of byte strings the codes are
//     copied ([column.OfCodes]), or headers of strings if the dictionary has nulls. See [Dictionary];
//   - values that do not lie at a multiple of their size, which files that are mapped may have.
//
// Types that Arrow stores as integers are columns of these: dates, times, timestamps, durations,
// decimals of 32 and 64 bits. Wider decimals and intervals are byte strings of one width, good as
// keys; their order is not that of the numbers. A column does not know what it was, so [Array]
// has to be told the type on the way back; [Numeric] says whether sums of it mean something.
// Half floats, lists, structs, maps, unions and run-end encoded arrays are errors.
//
// A column does not retain the array. Memory of Go's heap, which arrow-go uses by default, lives as
// long as the column. Of other allocators, and of files that are mapped, it does not outlive the
// array.
//
// [OpenIPC] reads Arrow's own files and streams. Damaged files are errors, where arrow-go panics or takes all memory.
// Package parquet, beside this one, reads and writes Parquet files, without arrow-go.
//
// [arrow-go]: https://github.com/apache/arrow-go
package arrow
