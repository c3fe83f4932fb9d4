// The memory of groups on a GPU, and what kernels are told. groups.go explains it.
#pragma once

#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::groups {

// Threads of a block, and blocks on a multiprocessor, each with a table of its own in shared memory. lab/GROUPS.md has
// the reasons for these and the numbers below, and what was measured with them.
constexpr uint32_t kThreads = 256, kBlocks = 4;
constexpr uint32_t kLocalBytes = 48 * 1024 - 64;

// Cells that a key is looked for in there. Of a table with a load of 0.65, as 1000 groups make it, one key in three
// hundred finds none.
constexpr uint32_t kLocalProbes = 8;

// What rows have been combined for in a table before it is called useful: so many for each of its cells.
constexpr uint32_t kWorth = 2;

// A round in which fewer than one row in so many has found its key ends the use of a table.
constexpr uint32_t kFewHits = 8;

// Rounds without a table after one that was no use: at most so many.
constexpr uint32_t kLongestRest = 64;

constexpr uint32_t kNone = kAll;

// Types of keys and values; of groups.go, too. Floats are the last, and signed ones are even among integers.
enum Type : uint32_t { kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64, kBool, kFloat32, kFloat64 };

// What is kept of values: kNulls counts those that are null, all others are of the rest. The last two keep the number
// of a row, and its value.
enum Op : uint32_t { kSum, kSumFloat, kMin, kMax, kNulls, kFirstRow, kLastRow };

// A record is words of 64 bits: its key with all bits inverted, so that 0 is no key; the number of its rows; and what
// fields keep. The key with all bits set has the record behind the last one.
constexpr uint32_t kCount = 1, kFirst = 2;

struct Table {
  uint64_t* records;
  uint64_t seed;
  uint32_t slots;
  uint32_t words;  // of a record
};

// Column is values of a type. With a bitmap, a bit for each row from bit number offset on, those whose bit is 0 are null.
struct Column {
  const void* values;
  const uint8_t* valid;  // null: no value is
  uint64_t offset;
};

// A key column's place in a row of words: its value, bits of its own width, and a bit that says that it is null, if there
// is one.
struct Key {
  Column column;
  Type type;
  uint32_t word, shift;
  uint32_t null_word, null_shift;  // kNone: there is no bit
  uint32_t unused;
};

// Which rows are meant: all, those of which no key is null, or the others.
enum Filter : uint32_t { kAllRows, kWithoutNulls, kWithNulls };

// A field is what is kept of a column of values: a sum of integers and a row take two words, others one.
struct Field {
  Column column;
  Op op;
  Type type;
  uint32_t at;     // word of the record
  uint32_t local;  // first byte of its part of shared memory
};

// What is known of a table on the device.
struct Head {
  uint32_t used;  // records with a key
  uint32_t full;  // not 0: rows have found no room, or some have not been looked at
  uint32_t over;  // not 0: a sum has gone over 2^94
  uint32_t unused;
};

struct AddParams {
  Table table;
  Head* head;
  const void* keys;  // values of one column, or numbers of rows of words
  const Key* columns;
  const Field* fields;
  uint64_t base;     // rows before these
  uint32_t* rounds;  // of each block: how many it has done
  uint32_t* listed;  // of each block: rows that found no room,
  uint32_t* lists;   // and which they are
  uint32_t n;
  uint32_t round;   // rows of a round, a multiple of those of a tile
  uint32_t limit;   // of records with a key
  uint32_t probes;  // records that a key is looked for in
  uint32_t cells;   // of tables in shared memory; odd
  uint32_t nfields;
  Type key;         // of one column
  uint32_t ncolumns;
  Filter filter;
  uint32_t numbered;  // not 0: keys are numbers, of which kNone is no row
};

struct PickParams {
  Table table;
  const Field* fields;
  uint64_t base;
  uint32_t n;
  uint32_t nfields;
};

struct MoveParams {
  Table from, to;
  Head* head;
};

struct CarryParams {
  Table table;
  Head* head;
  const Field* fields;
  uint32_t nfields;
  uint32_t unused;
};

// What a column of results is.
enum Func : uint32_t { kRows, kCountOf, kSumOf, kMeanOf, kSumOfFloats, kMeanOfFloats, kLeast, kGreatest, kRowOf };

struct Output {
  void* column;     // of the type of values; numbers of rows, sums and means have 64 bits
  uint32_t* valid;  // a bit for each row, all 0 before; null: nothing is null
  uint64_t* over;   // one more than a row whose sum does not fit 64 bits
  Func func;
  Type type;       // of values
  uint32_t at;     // word of the record
  uint32_t nulls;  // word of the number of nulls; 0: there are none
};

// KeyOutput is where a key column goes, of a row of words.
struct KeyOutput {
  void* column;
  uint32_t* valid;
  Key from;
};

struct ResultParams {
  Table table;
  const KeyOutput* keys;
  const Output* outputs;
  const uint64_t* rows;  // of words, by number; null: keys are such rows, of one word
  uint64_t* count;       // of rows, added to
  uint64_t first;        // row
  uint64_t room;         // for rows
  uint32_t nkeys;
  uint32_t noutputs;
  uint32_t words;  // of a row
  uint32_t unused;
};

// Rows of words have numbers: those of an index by hash, of which a place is half of the hash and one more than a number.
struct Index {
  uint64_t* places;
  uint64_t* rows;  // of words, by number
  uint64_t seed;
  uint32_t slots;
  uint32_t words;
};

struct NumberParams {
  Index index;
  const Key* keys;
  uint32_t* numbers;  // of rows; kNone: left out
  uint32_t* used;     // numbers that have been given away
  uint32_t* count;    // of rows that are listed,
  uint32_t* missing;  // and which they are
  uint32_t* spare;    // of each thread: a number that nobody has, or kNone
  uint32_t n;
  uint32_t nkeys;
  Filter filter;
  uint32_t unused;
};

struct ReindexParams {
  Index from, to;
};

}  // namespace weft::groups
