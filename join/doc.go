// Package join finds the rows of two tables that have equal keys. An [Index] over the key columns
// of one table is built once and looked up any number of times. Its keys may repeat. Results are
// row numbers, and the other columns stay where they are.
//
//	SQL                                             here
//	SELECT … FROM l JOIN r ON l.k = r.k             Inner
//	SELECT … FROM l LEFT JOIN r ON l.k = r.k        Left
//	SELECT … FROM l WHERE k IN (SELECT k FROM r)    Semi
//	SELECT … FROM l WHERE NOT EXISTS (…)            Anti
//	SELECT count(*) … GROUP BY l.k                  Count
//	SELECT count(DISTINCT k) FROM r                 Distinct
//
// r is the build side: [New] takes its key columns. It should be the smaller side, since the index
// takes memory. l is the probed side.
//
// # Keys
//
// A key is a value of one column, or of several columns together. Columns of both sides must agree
// in number and types: an int32 never equals an int64, nor a signed number an unsigned one. A null
// matches nothing, as in SQL, unless Options.NullsMatch is set. In columns of floats all NaN are
// equal, and -0 equals 0, as in package group. In SQL and with Go's ==, NaN equals nothing.
//
// Keys of up to 64 bits together are packed into a word. An Index numbers byte strings and wider
// keys with package intern, which takes memory of its own, and time for each row. A Join hashes
// such keys to 64 bits, and compares the keys of rows with equal hashes.
//
// # Order
//
// Results do not depend on the number of cores. Pairs come in the order of the left rows, and the
// pairs of one left row come in the order of the right rows.
//
// # Cost
//
// On a CPU, an index over keys of up to 64 bits takes at most 24 bytes a row, and less if keys
// repeat. If keys lie close together, as row numbers and ids do, it takes 4 bytes a row. It takes 4
// more for each number between the smallest key and the largest. Building takes at most 40 bytes a
// row. A lookup takes up to 42 MiB more, for any number of rows and pairs.
//
// All cores work on one call. When an index is built or a call looks up many rows, hashes of the
// keys distribute rows to parts of the index. A part fits a core's cache, so cores do not wait for
// memory.
//
// # Larger than memory
//
// A [Join] takes the rows of both sides in batches, with the columns that its result needs, and
// yields batches of joined columns. Options.Memory bounds its memory. Rows beyond this bound go to
// a temporary file, partition by partition. Without a bound, a Join takes memory for all right rows
// and their index.
//
// # Filters
//
// A [Filter] of the build side drops most rows of the other side that match nothing. A reader
// applies it before it decodes rows: package arrow/parquet skips row groups and pages by the
// filter's ranges, and decodes other columns only where its Bloom filter passes a key.
// [Index.Inner] and [Index.Semi] find the same rows with a filter and without. [Index.Left],
// [Index.Anti] and [Index.Count] need all rows. A filter follows the rules of keys above: it keeps
// rows with NaN if the build side has NaN, even if statistics omit NaN, and drops null unless
// NullsMatch is set. Its size is fixed and it takes the build side in batches, so that the build
// side may exceed memory:
//
//	f, err := join.NewFilter([]column.Type{column.Int64}, &join.FilterOptions{Rows: n})
//	err = f.Add(ctx, keys)           // any number of times
//	rows, err := f.Select(left, nil) // or (*parquet.File).Filtered
//
// A filter pays if it drops most rows. If it passes all rows, a join of 10^7 keys with 10^7 others
// takes 13 to 40 % longer.
//
// # GPUs
//
// An [Index] on a GPU keeps keys in a map there. Its methods copy keys to the GPU and results back.
// The results are the same as on a CPU. An [IndexOn] looks up columns of integers in device memory,
// and leaves the pairs there. [IndexOn.Inner] and [IndexOn.Left] stream host keys to the GPU, and
// pairs back. [InnerOn] joins host keys whose index exceeds device memory, by indexing some rows at
// a time.
package join
