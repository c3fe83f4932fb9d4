// Package join finds the rows of one table that have the keys of another. An [Index] over the key
// columns of one side, which may have duplicates, is built once and looked up any number of times.
// Results are row numbers. The other columns stay where they are.
//
//	SQL                                             here
//	SELECT … FROM l JOIN r ON l.k = r.k             Inner
//	SELECT … FROM l LEFT JOIN r ON l.k = r.k        Left
//	SELECT … FROM l WHERE k IN (SELECT k FROM r)    Semi
//	SELECT … FROM l WHERE NOT EXISTS (…)            Anti
//	SELECT count(*) … GROUP BY l.k                  Count
//	SELECT count(DISTINCT k) FROM r                 Distinct
//
// r is the build side, with the columns that [New] takes. It should be the smaller side, since the
// index takes memory.
//
// # Keys
//
// A key is a value of one column, or of several together. Columns of both sides must agree in
// number and types: an int32 never equals an int64, nor a signed number an unsigned one. A null
// matches nothing, as in SQL, unless Options.NullsMatch is set. In columns of floats all NaN are
// equal, and -0 equals 0, as in package group. In SQL and with Go's == NaN equals nothing.
//
// Keys of up to 64 bits together are packed into a word. Byte strings and wider keys go through
// package intern, which takes its own memory, and time for each row. A Join hashes them to 64 bits,
// and compares.
//
// # Order
//
// Results do not depend on the number of cores. Pairs come in the order of the left rows, and those
// of one left row in the order of the right rows.
//
// # Cost
//
// On a CPU, an index over keys of up to 64 bits takes at most 24 bytes a row, and less if keys
// repeat. If keys lie close together, as row numbers and ids do, it takes 4 bytes a row and 4 for
// each number between the smallest key and the largest. Building takes at most 40 bytes a row. A
// lookup takes up to 42 MiB on top, for any number of rows and pairs.
//
// All cores work on one call. The hashes of their keys distribute rows to parts of the index that
// fit a core's cache, both when the index is built and when a call looks up many rows. So no core
// waits for memory.
//
// # Larger than memory
//
// A [Join] takes both sides in batches together with the columns that its result has, and yields
// batches of joined columns. Options.Memory bounds its memory. Rows beyond it go to a temporary
// file, partition by partition. Without a limit a Join takes the memory of the right rows and of
// their index.
//
// # Filters
//
// A [Filter] of the build side drops most rows of the other side that match nothing. A reader
// applies it before it decodes them: package arrow/parquet skips row groups and pages by its
// ranges, and decodes other columns only where its Bloom filter passes a key. [Index.Inner] and
// [Index.Semi] find the same rows with a filter and without. [Index.Left], [Index.Anti] and
// [Index.Count] need all rows. A filter follows the rules of keys above: it keeps rows with NaN if
// the build side has NaN, whatever statistics say, and drops null unless NullsMatch. It is built
// from batches in memory of a fixed size, so the build side need not fit:
//
//	f, err := join.NewFilter([]column.Type{column.Int64}, &join.FilterOptions{Rows: n})
//	err = f.Add(ctx, keys)           // any number of times
//	rows, err := f.Select(left, nil) // or (*parquet.File).Filtered
//
// A filter pays if it drops most rows. One that passes all costs its own time: a join of 10^7 keys
// with as many takes 13 to 40 % longer.
//
// # GPUs
//
// An [Index] on a GPU keeps keys in a map there. Its methods copy keys to the GPU and results back,
// and results are the same. An [IndexOn] looks up columns of integers in device memory, and the
// pairs stay there. [IndexOn.Inner] and [IndexOn.Left] stream host keys through it, and pairs back.
// [InnerOn] joins host keys if an index of them exceeds device memory: it indexes some rows at a
// time.
package join
