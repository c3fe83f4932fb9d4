// Package group computes aggregates of groups of rows, like SQL's GROUP BY.
//
// Rows come as columns (see package column), in any number of batches. Rows with the same values in
// their key columns form a group. Each group has counts, sums, extremes, means, and first and last
// values of any number of value columns, all computed in one pass:
//
//	r, err := group.By(ctx, dev, keys, values, []group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 0}}, nil)
//
// [By] takes all rows at once. [New] returns [Groups], which take batches and return results in
// between. Without aggregates the result is the distinct keys. Without key columns all rows are one
// group.
//
// # Keys
//
// Null is a key value like others, equal to itself, unless [Options].SkipNulls is set. All NaN are
// one key, which is NaN in results, and -0 is the key 0. Byte strings are equal if their bytes are.
//
// # Values
//
// Null values count for [Rows] only. A group with only null values has a count of 0, and null as
// any other aggregate. Sums of integers are exact, in any order of the rows, and have 64 bits. A
// sum that does not fit at the time of Result is an error that names its group, unless
// [Options].WrapSums is set. Sums of floats are float64. They depend on the order of additions,
// hence on the number of cores, in their last digits. Min and Max of floats are those of Go: NaN if
// a value is NaN, and -0 is less than 0.
//
// # Order
//
// Groups are in the order of their first rows, or sorted by their keys: in ascending order of the
// first key column, then of the second, and so on. Byte strings compare byte by byte. NaN comes
// after all numbers, null after all values. [First] and [Last] depend on the order of the rows,
// too, on any number of cores.
//
// # Larger than memory
//
// With Options.Memory, groups that exceed it go to one temporary file, in partitions by a hash of
// their keys. [Groups.Result] and [Groups.Pages] read one partition after another from there.
// Groups then have the order of partitions, unless they are sorted or rows have ordinals. Tables
// that no longer grow lie outside of the Go heap, and the system gets their memory back at once.
//
// # Partial results
//
// [Groups.Save] and [Load] keep the state of groups, and [Groups.Merge] adds that of other groups:
// sums have 128 bits until the result, and means keep sum and count. Rows that are added by
// [Groups.AddAt] have ordinals, and then any order and grouping of merges gives the result of one
// table. Sums and means of floats differ in their last digits.
//
// [Groups.SaveParts] saves them by partition of their keys, so that each of several processes can
// merge a part of all groups by [Groups.MergeFrom].
//
// # On a device
//
// [GroupsOn] are groups of rows on a device. Columns may lie there already, and are added on the
// stream of the caller. [GroupsOn.Add] streams host columns to a GPU in pieces, while kernels work
// on earlier pieces. [ByOn] groups host columns even if the groups exceed device memory. It copies
// the rows once more for each partition.
//
// # How it works
//
// Keys that fit 64 bits together, each with a bit for null if possible, become one code. Byte
// strings beside other columns first get numbers of 32 bits, by column. Keys that do not fit get
// dense numbers from package intern, which compares their bytes.
//
// The first rows of a batch give an estimate of the number of groups. Up to some 10^5, each core
// combines its share of the rows in a table of its own, and the tables are merged. Beyond that, a
// hash of their keys distributes rows to parts that fit a core's cache, with one core per part. So
// rows of a group meet without locks, in their order. Rows of groups that a core's table has are
// combined there in any case, so frequent keys are not distributed.
package group
