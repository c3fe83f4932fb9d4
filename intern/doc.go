// Package intern gives byte strings, and rows of several columns, dense ids: 0, 1, 2, … in the order of
// their first appearance. It encodes columns as numbers, removes duplicates, and makes keys of
// any kind fit for what takes integers: the graphs, maps and joins of other packages.
//
//	t, err := intern.New(dev, nil)
//	ids := make([]uint32, len(lines))
//	added, err := t.Strings(ctx, lines, ids) // a line is new where its id is larger than all before it
//
// Batches come as strings, as slices of bytes, as columns in Go's layouts or in Arrow's, or as the rows of several columns; [Table.At],
// [Table.Keys] and [Table.Columns] lead back from ids to keys. [Table.FindStrings] and its siblings look up and add nothing. [Table.Save] and
// [Load] keep ids over restarts, on any device.
//
// # What it promises
//
// It is exact: keys are compared byte by byte wherever their hashes are equal. Ids depend on the rows and on
// nothing else: not on batches, cores, devices or seeds. Rows of a batch are done from the first on; whatever ends a call early, a
// [weft.PartialError] says how many have been done. With Options.MaxBytes a table takes no more memory than that, and
// says so by weft.ErrFull while it goes on finding what it has. There are 2^32-1 ids. Keys cannot be deleted.
//
// All methods may be called from many goroutines. Calls that add take turns; those that find run beside each other, and wait for
// one that adds no longer than it takes for a million rows.
//
// # When to choose it
//
// For keys that are no integers, or where ids must be dense, by the thousand and more at a time. Integers of 32 and 64
// bits that need no order of appearance are better off in package linear: a set is half of this table. A call of one key takes
// a microsecond, so such keys should be gathered. Where some thousand keys come again and again, so that a Go map of them lies in a core's
// cache, that takes 10 nanoseconds a row and this table 40, of all cores together.
//
// # Layout
//
// A key has a hash of 64 bits, an index from hashes to numbers, and its bytes by number. Up to 7 bytes are their own hash,
// mixed by a seeded bijection, and so are rows whose columns have up to 64 bits together, nulls included: of these nothing
// is compared. Others have a hash that is seeded, too. If two keys share it, which takes some 2^31 of them, the second one is in
// a Go map beside the index, and ids count it as if it were not.
//
//	index    12 bytes a slot, 17 to 35 a key; on a GPU 16 bytes a slot, in a map of package linear
//	bytes    8 a key, in which up to 7 lie; longer ones are in chunks, with a byte or two for their length
//	         keys of one width, as rows of numbers or column.OfWidth has them: their bytes and nothing else
//
// A chunk is up to a million rows. Cores take ranges of 4096 rows: they hash them, look them up and
// compare those that are found with their keys, while the rows are in the cache. The rows that are
// not known are dealt to the parts of the index, 256 or 4096 by the hash. Each part is filled by
// one core, without locks. The first row of each new key is marked, and the count of marks before
// it gives its number. The first parts to be filled tell how many keys of the chunk are new, and
// the others get their room once. Keys are anywhere in memory, so those of one group of rows are
// requested while another is compared.
//
// On a GPU the index is a map of package linear, whose Assign does the same; bytes stay in host memory. Its speed there
// has not been measured: expect it to pay where the index is large and lookups are many.
//
// # Figures
//
// Processor time in nanoseconds a row, all cores together, to add to an empty table and to add again, beside a loop over a Go map of one core, which
// has no ids where it is a set; and bytes a key. Half of the rows or so bring a new key, of words one in twenty. Two cores of an EPYC that others used at the
// same time, which makes all of them slower, 25 November 2026; BenchmarkTable.
//
//	rows                     add    again   Go map              bytes a key, and of the Go map
//	4 M lines of 60 bytes    165    110     340 (set)           88    98
//	8 M words                 62     52      80 (set)           38    44
//	8 M keys of 16 bytes     110     62     325 (set)           39    50
//	8 M keys of 32 bytes     120     66     400 (set)           55    66
//	20 M int64                84     41     160 (to uint32)     29    26
package intern
