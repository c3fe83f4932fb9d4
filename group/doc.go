// Package group computes aggregates of groups of rows, like SQL's GROUP BY.
//
// Rows come as columns (see package column), in any number of batches. Rows with the same values in
// their key columns form a group. For each group, one pass computes counts, sums, extremes,
// means, deviations, and first and last values of any number of value columns:
//
//	r, err := group.By(ctx, dev, keys, values, []group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 0}}, nil)
//
// [By] takes all rows at once. [New] returns [Groups], which take batches and can return a result
// after each batch. Without aggregates the result is the distinct keys. Without key columns all
// rows are one group.
//
// # Keys
//
// Null is a key value like others and equal to itself, unless [Options].SkipNulls is set. All NaN
// are one key, which is NaN in results. -0 and 0 are one key, which is 0 in results. Byte strings
// are equal if their bytes are equal.
//
// # Values
//
// Only [Rows] counts null values. A group with only null values has a count of 0, and all its other
// aggregates are null. Sums of integers have 64 bits and are exact for any order of the rows. If a
// sum does not fit, Result returns an error that names the group, unless [Options].WrapSums is set.
// Sums of floats are float64. Their last digits depend on the order of the additions, and thus on
// the number of cores. [Var] and [StdDev] compute with the exact sums of integers and their
// squares, and with sums of floats in three terms, so values far from zero lose no digits. Min and
// Max of floats follow Go's min and max: NaN if a value is NaN, and -0 is less than 0.
//
// # Order
//
// Groups are in the order of their first rows, or sorted by their keys: in ascending order of the
// first key column, then of the second, and so on. Byte strings compare byte by byte. NaN comes
// after all numbers, and null after all values. [First] and [Last] follow the order of the rows on
// any number of cores.
//
// # Larger than memory
//
// With Options.Memory, groups that exceed this bound go to one temporary file, partitioned by a
// hash of their keys. [Groups.Result] and [Groups.Pages] then read one partition after another from
// the file. Groups come in the order of the partitions, unless they are sorted or rows have
// ordinals. Tables that have stopped growing lie outside the Go heap, so that the system gets their
// memory back at once.
//
// # Partial results
//
// [Groups.Save] and [Load] store and restore the state of groups, and [Groups.Merge] adds the state
// of other groups. Until the result, sums have 128 bits, and means keep a sum and a count. Rows
// added by [Groups.AddAt] have ordinals. Merges of such groups, in any order, give the result of
// one table, except for the last digits of sums, means and deviations of floats.
//
// [Groups.SaveParts] saves groups by partition of their keys, so that each of several processes can
// merge one partition of all groups by [Groups.MergeFrom].
//
// # On a device
//
// [GroupsOn] groups rows on a device. [GroupsOn.AddOn] adds columns that lie in device memory, on
// the stream of the caller. [GroupsOn.Add] streams host columns to a GPU in pieces, while kernels
// work on earlier pieces. [ByOn] groups host columns even if the groups exceed device memory. It
// copies the rows once more for each partition.
//
// # How it works
//
// Keys that together fit 64 bits, if possible with one more bit per column for null, become one
// code. Byte strings next to other columns are first replaced by 32-bit numbers, column by column.
// Keys that do not fit get dense numbers from package intern, which compares their bytes.
//
// The first rows of a batch give an estimate of the number of groups. Up to some 10^5 groups, each
// core combines its share of the rows in a local table, and the local tables are merged. Beyond
// that, a hash of the keys distributes rows to parts that fit a core's cache, with one core per
// part. Rows of a group thus meet without locks and in their order. A core still combines rows of
// groups that its local table already has, so frequent keys are not distributed.
package group
