// Package group computes aggregates of groups of rows: what SQL calls group by.
//
// Rows come as columns (see package column), in any number of batches. Rows whose
// key columns hold the same values are a group, and each group has counts, sums,
// extremes, means, and first and last values of any number of value columns, all
// computed in one pass:
//
//	r, err := group.By(ctx, dev, keys, values, []group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 0}}, nil)
//
// [By] takes all rows at once. [New] returns [Groups], to which batches are added and whose
// results may be read in between. With no aggregates the result is the distinct keys, with no key
// columns all rows are one group.
//
// # Keys
//
// Null is a key value like others, equal to itself, unless [Options].SkipNulls is set.
// All NaN are one key, and -0 is the key 0; results have those two.
// Byte strings are equal if their bytes are.
//
// # Values
//
// Null values count for [Rows] only. A group whose values are all null has a count of 0, and null
// as any other aggregate. Sums of integers are exact, whatever the order of the rows,
// and have 64 bits; one that does not fit at the time of Result is an error that names its group, unless
// [Options].WrapSums is set. Sums of floats are float64, and depend on the order of additions, hence
// on the number of cores, in their last digits. Min and Max of floats are those of Go:
// NaN if one of them is, and -0 is less than 0.
//
// # Order
//
// Groups are in the order in which they first came, or sorted by their keys: in ascending order of the first key
// column, then of the second, and so on; byte strings byte by byte; NaN behind all numbers, null behind all
// values. [First] and [Last] go by the order of the rows, too, on any number of cores.
//
// # Larger than memory
//
// With Options.Memory, groups that exceed it go to one temporary file, in partitions by a hash of
// their keys. [Groups.Result] and [Groups.Pages] take one partition after another from there. The
// order is that of partitions then, unless groups are sorted or rows have ordinals. Tables that no
// longer grow lie outside of the Go heap, and the system gets their memory back at once.
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
// [GroupsOn] are groups of rows whose columns lie on a device already, added on the stream of the
// caller, or of host columns, which [GroupsOn.Add] streams to a GPU in pieces while kernels work on
// those before. [ByOn] groups host columns whose groups exceed device memory, too. It copies the
// rows once more for each partition.
//
// # How it works
//
// Keys that fit 64 bits together, each with a bit for null if there is room, become one code. Byte
// strings beside other columns get numbers first, by column, which take 32 bits each. Keys that do
// not fit get dense numbers from package intern, which compares their bytes.
//
// The first rows of a batch tell how many groups there will be. Up to some 10^5, each core combines
// its share of the rows in a table of its own, and the tables are merged. If there are more, rows
// are dealt out by a hash of their keys to parts that fit a core's cache, and each part is one
// core's: rows of a group meet without locks, in their order. Rows of groups that a core's table
// has are combined there in any case, so that frequent keys need not meet.
package group
