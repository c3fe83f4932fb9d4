// Package intern gives byte strings, and rows of several columns, dense ids: 0, 1, 2, … in the
// order of their first appearance. It encodes columns as numbers, removes duplicates, and adapts
// keys of any kind to structures of integer keys: the graphs, maps and joins of other packages.
//
//	t, err := intern.New(dev, nil)
//	ids := make([]uint32, len(lines))
//	added, err := t.Strings(ctx, lines, ids) // a line is new where its id is larger than all before it
//
// Batches come as strings, as slices of bytes, as columns in Go's layouts or in Arrow's, or as the
// rows of several columns. [Table.At], [Table.Keys] and [Table.Columns] lead back from ids to keys.
// [Table.FindStrings] and its siblings look up keys without adding any. [Table.Save] and [Load]
// keep ids across restarts, on any device.
//
// # What it promises
//
// Ids are exact: keys are compared byte by byte wherever their hashes are equal. Ids depend only on
// the rows, and not on batches, cores, devices or seeds. A call processes the rows of a batch from
// the first on. If it ends early, a [weft.PartialError] holds the number of rows done.
// Options.MaxBytes bounds the memory of a table. At the bound, calls that add return weft.ErrFull,
// and lookups still work. A table has 2^32-1 ids. Keys cannot be deleted.
//
// All methods may be called from many goroutines. Calls that add exclude each other. Lookups run
// concurrently, and wait for a call that adds no longer than it takes for a million rows.
//
// # When to choose it
//
// Choose it for keys other than integers, or for dense ids, in batches of a thousand or more.
// Integers of 32 and 64 bits without a need for the order of appearance are better off in package
// linear: a set takes half of this table. A call with one key takes a microsecond, so gather such
// keys. If some thousand keys repeat, a Go map of them fits a core's cache. The map then takes 10
// nanoseconds a row and this table 40, of all cores together.
//
// # Layout
//
// A table stores a hash of 64 bits for each key, an index from hashes to numbers, and the key's
// bytes by number. Keys of up to 7 bytes are their own hash, mixed by a seeded bijection. So are
// rows of columns with up to 64 bits together, nulls included. Such keys are never compared. Others
// have a seeded hash, too. A shared hash takes some 2^31 keys. Then the second key goes to a Go map
// beside the index, and gets its id in the same order.
//
//	index    12 bytes a slot, 17 to 35 a key; on a GPU 16 bytes a slot, in a map of package linear
//	bytes    8 a key, in which up to 7 lie; longer ones are in chunks, with a byte or two for their length
//	         keys of one width, as rows of numbers or column.OfWidth has them: their bytes and nothing else
//
// A chunk is up to a million rows. Cores take ranges of 4096 rows: they hash them, look them up and
// compare those that are found with their keys, while the rows are in the cache. The hash
// distributes unknown rows to the parts of the index, 256 or 4096. One core fills each part,
// without locks. It marks the first row of each new key, and the count of marks before it gives its
// number. The first parts give an estimate of the number of new keys in the chunk, by which the
// others get their capacity at once. Keys are anywhere in memory, so those of one group of rows are
// prefetched while another is compared.
//
// On a GPU the index is a map of package linear, with an Assign that does the same. Bytes stay in
// host memory. The speed there has not been measured: expect it to pay if the index is large and
// lookups are many.
//
// # Figures
//
// Processor time in nanoseconds a row, all cores together, to add to an empty table and to add
// again. The peer is a loop over a Go map on one core, which has no ids if it is a set. The last
// columns are bytes a key. About half of the rows have a new key, of words one in twenty. Measured
// on two cores of an EPYC that others used at the same time, which makes all figures slower, 25
// November 2026; BenchmarkTable.
//
//	rows                     add    again   Go map              bytes a key, and of the Go map
//	4 M lines of 60 bytes    165    110     340 (set)           88    98
//	8 M words                 62     52      80 (set)           38    44
//	8 M keys of 16 bytes     110     62     325 (set)           39    50
//	8 M keys of 32 bytes     120     66     400 (set)           55    66
//	20 M int64                84     41     160 (to uint32)     29    26
package intern
