// Package spill is the kit of jobs with data larger than memory: a codec for pages of columns, a
// temporary file that holds chains of pages, and a budget of memory outside of the Go heap.
//
// A job reserves its memory in a [Budget]. When Reserve fails, the job writes parts of its state as
// pages ([AppendPage]) to chains of a [File], one chain for each partition, and reads the chains
// one after another later ([DecodePage]). Saved partial results and messages between machines
// consist of the same pages.
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
// Encoding 0, of integers and floats: n differences of w bytes. Value i is m plus difference i,
// modulo 2 to the number of bits of the type. A float is the unsigned integer of its bits. If w is
// the size of the type, m is 0, so the differences are the values. If w is 0 the column is
// constant. Differences of nulls are 0.
//
// Encoding 1, of bool: (n+7)/8 bytes; value i is bit i%8 of byte i/8. w and m are 0.
//
// Encoding 2, of bytes: n lengths as in encoding 0, with w up to 8; then a uint64, the sum of all
// lengths; then the bytes of all values. A null has length 0.
//
// Encoding 3, of bytes: n codes of w bytes, up to 4, where m is 0; then a column of encoding 2
// without a bitmap, which holds the entries. Code i is the number of an entry. Codes of nulls are
// 0.
//
// Values without bytes are bounded, so that a small page cannot cost much memory. Columns with
// w = 0 need n times the size of a value in encoding 0, 4n in encoding 3, and, if m is 0, 4(n+1) in
// encoding 2. At the header of such a column, the sum of these needs, this one included, is at most
// 65,536 plus 16 times the offset of the header. Otherwise the writer takes w = 1.
//
// # Files
//
// A spill file has no name where the system permits that, and otherwise loses it at once, so it
// ends with the process however that ends. It consists of blocks of one size, which chains take,
// free and take again. A block:
//
//	0   uint32   CRC-32C of bytes 4 to 32 and of the payload
//	4   uint32   length of the payload in bytes
//	8   uint64   number of the chain, which no other chain of the file has
//	16  uint64   number of the block in the chain, from 0 on
//	24  uint64   0
//	32           payload
//
// The payloads of a chain, one after another, are its pages: a uint64 with the length, the bytes,
// and zeros up to a multiple of 8. A page may span blocks. Only the process that wrote a file reads
// it, so this format may change.
//
// Blocks are not compressed. The library has no compressor among its dependencies, and pages are
// narrow already.
package spill
