// Package join finds the rows of one table that have the keys of another: an [Index] over
// the key columns of one side, duplicates and all, built once and looked up any number of times. What it
// returns are row numbers; the other columns stay where they are.
//
//	SQL                                             here
//	SELECT … FROM l JOIN r ON l.k = r.k             Inner
//	SELECT … FROM l LEFT JOIN r ON l.k = r.k        Left
//	SELECT … FROM l WHERE k IN (SELECT k FROM r)    Semi
//	SELECT … FROM l WHERE NOT EXISTS (…)            Anti
//	SELECT count(*) … GROUP BY l.k                  Count
//	SELECT count(DISTINCT k) FROM r                 Distinct
//
// r is the build side, whose columns [New] takes. Let that be the smaller one: the index is what
// takes memory.
//
// # Keys
//
// A key is a value of one column, or of several together. Columns of both sides must agree in number and
// types: an int32 never equals an int64, nor a signed number one without sign. A null matches nothing, as
// in SQL, unless Options.NullsMatch says otherwise. Of floats all NaN are equal, and -0 is equal
// to 0, as in package group; SQL and Go's == would have NaN equal nothing.
//
// Keys of up to 64 bits together are packed into a word; byte strings and what is wider go through package
// intern, which takes its own memory, and time for each row. A Join hashes them to 64 bits, and
// compares.
//
// # Order
//
// Results do not depend on the number of cores: pairs come in the order of the left rows, and for one
// left row in that of the right rows.
//
// # Cost
//
// On a CPU, an index over keys of up to 64 bits takes at most 24 bytes a row, and less where keys have many; where
// keys lie close together, as row numbers and ids do, 4 bytes a row and 4 for
// each number between the smallest key and the largest. Building it takes 40 bytes a row at most. Looking up takes
// up to 42 MiB beside that, whatever the number of rows and of pairs.
//
// All cores work on one call. Rows are dealt out by the hashes of their keys to parts of the index that fit a core's cache,
// when it is built and when many rows are looked up at once; then nobody waits for memory.
//
// # Larger than memory
//
// A [Join] takes both sides in batches together with the columns that are wanted of them, and
// yields batches of joined columns. Options.Memory bounds its memory. What exceeds that goes to a
// temporary file, partition by partition. Without a limit a Join takes the memory of the right rows
// and of their index.
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
// A filter pays where it drops most rows. One that passes all costs its own time: a join of 10^7
// keys with as many takes 13 to 40 % longer.
//
// # GPUs
//
// An [Index] on a GPU keeps keys in a map there; its methods carry keys to the GPU and what they find back, and results are
// the same. Columns of integers that lie in device memory are looked up there, by an [IndexOn], and the pairs stay there.
// [IndexOn.Inner] and [IndexOn.Left] stream host keys through it, and pairs back. [InnerOn] joins
// host keys if an index of them exceeds device memory: it makes one of some rows at a time.
package join
