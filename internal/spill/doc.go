// Package spill helps jobs whose data exceeds memory. It has a codec for pages of columns, a
// temporary file that holds chains of pages, and a budget of memory outside the Go heap.
//
// A job reserves its memory in a [Budget]. When Reserve fails, the job writes parts of its state as
// pages ([AppendPage]) to chains of a [File], one chain for each partition. Later it reads one
// chain after another ([DecodePage]). Saved partial results and messages between machines consist
// of the same pages.
//
// # Pages
//
// A page is a batch of columns of equal length. All numbers are little-endian. Offsets count from
// the first byte of the page. Every part begins at a multiple of 8, and zeros fill the gaps.
//
//	0   3 bytes  "WPG"
//	3   uint8    version: 1
//	4   uint32   CRC-32C (Castagnoli) of all bytes from 8 on
//	8   uint64   length of the page in bytes, a multiple of 8
//	16  uint32   rows n, between 1 and 2^31-1
//	20  uint32   number of columns, at least 1
//	24           the columns, one after another, up to the end of the page
//
// A column has a header of 16 bytes, a bitmap if it has nulls, and its values:
//
//	0   uint8    type: 1 int8, 2 int16, 3 int32, 4 int64, 5 uint8, 6 uint16, 7 uint32, 8 uint64,
//	             9 float32, 10 float64, 11 bool, 12 bytes
//	1   uint8    encoding: 0 numbers, 1 bits, 2 bytes, 3 dictionary
//	2   uint8    width w: 0, 1, 2, 4 or 8 bytes, at most the size of the type
//	3   uint8    1 if a bitmap follows, otherwise 0
//	4   uint32   entries of the dictionary, otherwise 0
//	8   uint64   minimum m; signed types extend its sign to 64 bits
//	16           bitmap: (n+7)/8 bytes; bit i%8 of byte i/8 is 1 if value i is not null
//
// Encoding 0 holds integers and floats as n differences of w bytes. Value i is m plus difference i,
// modulo 2 to the number of bits of the type. A float is stored as the unsigned integer with the
// same bits. If w is the size of the type, m is 0, so the differences are the values. If w is 0,
// the column is constant. Differences of nulls are 0.
//
// Encoding 1 holds bools in (n+7)/8 bytes: value i is bit i%8 of byte i/8. w and m are 0.
//
// Encoding 2 holds byte strings: n lengths in encoding 0, with w up to 8, then the sum of all
// lengths as a uint64, then the bytes of all values. A null has length 0.
//
// Encoding 3 holds byte strings with a dictionary: n codes of w bytes, up to 4, with m = 0, then
// the entries as a column of encoding 2 without a bitmap. Code i is the index of an entry. Codes of
// nulls are 0.
//
// Some values take no bytes in the page when w = 0. Their decoded size is bounded, so that a small
// page cannot cost much memory. A column of n rows then needs n times the size of a value in
// encoding 0, and 4n bytes in encoding 3. It needs 4(n+1) bytes in encoding 2 if m is 0. For each
// such column, the sum of these needs, up to this column, is at most 65,536 plus 16 times the
// offset of its header. Otherwise the writer uses w = 1.
//
// # Files
//
// A spill file has no name if the system permits that. Otherwise its name is removed at once. The
// file thus ends with the process, even after a crash. It consists of blocks of one size, which
// chains allocate, free and reuse. A block:
//
//	0   uint32   CRC-32C of bytes 4 to 32 and of the payload
//	4   uint32   length of the payload in bytes
//	8   uint64   number of the chain, which no other chain of the file has
//	16  uint64   number of the block in the chain, from 0 on
//	24  uint64   0
//	32           payload
//
// The payloads of a chain, one after another, are its pages. Each page has its length as a uint64,
// its bytes, and zeros up to a multiple of 8. A page may span blocks. Only the process that wrote a
// file reads it, so this format may change.
//
// Blocks are not compressed. The library has no compressor among its dependencies, and pages are
// already narrow.
package spill
