// Package intern gives byte strings, and rows of several columns, dense ids: 0, 1, 2, … in the
// order of their first appearance. It encodes columns as numbers, removes duplicates, and adapts
// keys of any kind to structures with integer keys: the graphs, maps and joins of other packages.
//
//	t, err := intern.New(dev, nil)
//	ids := make([]uint32, len(lines))
//	added, err := t.Strings(ctx, lines, ids) // a line is new if its id exceeds all ids before it
//
// A batch is a slice of strings or byte slices, a column in Go's layout or in Arrow's, or the rows
// of several columns. [Table.At], [Table.Keys] and [Table.Columns] return the keys of ids.
// [Table.FindStrings] and its siblings look up keys without adding any. [Table.Save] and [Load]
// copy a table to another process, on any device.
//
// # What it promises
//
// Ids are exact: keys with equal hashes are compared byte by byte. Ids depend only on the rows, and
// not on batches, cores, devices or seeds. A call processes the rows of a batch from the first on.
// If it ends early, it returns a [weft.PartialError] with the number of rows done. Options.MaxBytes
// bounds the memory of a table. At this bound, calls that add keys return weft.ErrFull, and lookups
// still work. A table has at most 2^32-1 keys. Keys cannot be deleted.
//
// All methods may be called from many goroutines. Calls that add exclude each other. Lookups run
// concurrently. They wait at most for a million rows of a call that adds.
//
// # Power failures
//
// Function Open of package durable makes the ids of a table survive power failures. A call that
// adds then returns ids only when their keys are on the disk, or as far as the policy promises.
// Lookups may return keys that are not on the disk yet. The log takes the bytes of each key and
// some 4 more. With it, adding rows to an empty table takes up to half as much time again, and
// adding known rows takes no more time.
//
// # When to choose it
//
// Choose it for keys other than integers, or for dense ids, in batches of a thousand rows or more.
// For integers of 32 and 64 bits, use package linear if the order of appearance does not matter: a
// set takes half the memory of this table. A call with one key takes a microsecond, so collect such
// keys into batches. If only some thousand keys repeat, a Go map of them fits a core's cache. The
// map then takes 10 nanoseconds a row, and this table 40, summed over all cores.
//
// # Layout
//
// A table stores a 64-bit hash for each key, an index from hashes to numbers, and the key's bytes
// by number. The hash of a key of up to 7 bytes is the key itself, mixed by a seeded bijection. The
// same holds for rows of columns that together have up to 64 bits, nulls included. Such keys are
// never compared. Other keys have a seeded hash. With some 2^31 of these keys, two are likely to
// share a hash. The second key then goes to a Go map outside the index, and gets its id in the same
// order.
//
//	index    12 bytes a slot, 17 to 35 a key; on a GPU 16 bytes a slot, in a map of package linear
//	bytes    8 a key, which hold keys of up to 7 bytes; longer ones are in chunks, with one or two
//	         more bytes for their length. If all keys have one width, as rows of numbers or
//	         column.OfWidth have, their bytes and nothing else
//
// A call processes up to a million rows at a time. Cores take ranges of 4096 rows. They hash these
// rows, look them up, and compare the found rows with their keys, while the rows are in the cache.
// The hash distributes unknown rows to the parts of the index, 256 or 4096. One core fills each
// part, without locks. It marks the first row of each new key, and the number of marks before a row
// is its key's number. The first parts give an estimate of the number of new keys, from which the
// other parts get their capacity at once. Keys may lie anywhere in memory, so the keys of one group
// of rows are prefetched while another group is compared.
//
// On a GPU the index is a map of package linear, whose Assign does the same. Bytes stay in host
// memory. The speed there has not been measured. It should pay for a large index with many lookups.
//
// # Figures
//
// The table lists nanoseconds of processor time per row, summed over all cores, to add rows to an
// empty table and to add them again. The peer is a loop over a Go map on one core. If the map is a
// set, it yields no ids. The last columns are bytes per key. About half of the rows have a new key,
// but only one in twenty of the words. Measured on two cores of an EPYC that others used at the
// same time, which makes all figures slower, 25 November 2026; BenchmarkTable.
//
//	rows                     add    again   Go map              bytes a key, and of the Go map
//	4 M lines of 60 bytes    165    110     340 (set)           88    98
//	8 M words                 62     52      80 (set)           38    44
//	8 M keys of 16 bytes     110     62     325 (set)           39    50
//	8 M keys of 32 bytes     120     66     400 (set)           55    66
//	20 M int64                84     41     160 (to uint32)     29    26
package intern
