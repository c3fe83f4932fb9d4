// The memory of groups on a GPU, and the parameters of kernels. groups.go explains it.
#pragma once

#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::groups {

// Threads of a block, and blocks on a multiprocessor, each with its own table in shared memory.
// lab/GROUPS.md has the reasons for these and the constants below, and the measurements.
constexpr uint32_t kThreads = 256, kBlocks = 4;
constexpr uint32_t kLocalBytes = 48 * 1024 - 64;

// The maximum number of cells probed for a key there. In a table with a load of 0.65, as 1000
// groups make it, one key in three hundred finds none.
constexpr uint32_t kLocalProbes = 8;

// The number of combined rows per cell from which on a table counts as useful.
constexpr uint32_t kWorth = 2;

// A round in which fewer than one row in kFewHits has found its key ends the use of a table.
constexpr uint32_t kFewHits = 8;

// The maximum number of rounds without a table after one that was not useful.
constexpr uint32_t kLongestRest = 64;

constexpr uint32_t kNone = kAll;

// Types of keys and values, with the numbers of groups.go. Floats come last, and signed integers
// are even.
enum Type : uint32_t { kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64, kBool, kFloat32, kFloat64 };

// What a field keeps of values. kNulls counts nulls; all others ignore them. The last two keep the
// number of a row, and its value.
enum Op : uint32_t { kSum, kSumFloat, kMin, kMax, kNulls, kFirstRow, kLastRow };

// A record is words of 64 bits: its key with all bits inverted, so that 0 is no key; the number of
// its rows; and the words of fields. The key with all bits set has the record after the last one.
constexpr uint32_t kCount = 1, kFirst = 2;

struct Table {
  uint64_t* records;
  uint64_t seed;
  uint32_t slots;
  uint32_t words;  // of a record
};

// Column is values of a type. With a bitmap, each row has a bit, from bit number offset on, and
// values with a 0 bit are null.
struct Column {
  const void* values;
  const uint8_t* valid;  // null: no value is null
  uint64_t offset;
};

// A key column's place in a row of words: its value, with the bits of its width, and its null bit,
// if any.
struct Key {
  Column column;
  Type type;
  uint32_t word, shift;
  uint32_t null_word, null_shift;  // kNone: no null bit
  uint32_t unused;
};

// Which rows count: all, those without a null key, or the others.
enum Filter : uint32_t { kAllRows, kWithoutNulls, kWithNulls };

// Field is what a record keeps of a column of values. A sum of integers and a row take two words,
// others one.
struct Field {
  Column column;
  Op op;
  Type type;
  uint32_t at;     // word of the record
  uint32_t local;  // first byte of its part of shared memory
};

// Head is the state of a table on the device.
struct Head {
  uint32_t used;  // records with a key
  uint32_t full;  // not 0: rows have overflowed, or some have not been processed
  uint32_t over;  // not 0: a sum exceeds 2^94
  uint32_t unused;
};

struct AddParams {
  Table table;
  Head* head;
  const void* keys;  // values of one column, or numbers of rows of words
  const Key* columns;
  const Field* fields;
  uint64_t base;     // rows before these
  uint32_t* rounds;  // of each block: rounds done
  uint32_t* listed;  // of each block: number of rows that overflowed,
  uint32_t* lists;   // and the rows
  uint32_t n;
  uint32_t round;   // rows of a round, a multiple of a tile
  uint32_t limit;   // maximum records with a key
  uint32_t probes;  // maximum probes for a key
  uint32_t cells;   // of tables in shared memory; odd
  uint32_t nfields;
  Type key;         // of one column
  uint32_t ncolumns;
  Filter filter;
  uint32_t numbered;  // not 0: keys are numbers; kNone is no row
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

// The function of a column of results.
enum Func : uint32_t { kRows, kCountOf, kSumOf, kMeanOf, kSumOfFloats, kMeanOfFloats, kLeast, kGreatest, kBeyond, kRowOf };

struct Output {
  void* column;     // of the type of values; numbers of rows, sums and means have 64 bits
  uint32_t* valid;  // a bit for each row, all 0 before; null: no nulls
  uint64_t* over;   // one more than a row with a sum that overflows 64 bits
  Func func;
  Type type;       // of values
  uint32_t at;     // word of the record
  uint32_t nulls;  // word of the number of nulls; 0: no nulls
};

// KeyOutput is the target of a key column of a row of words.
struct KeyOutput {
  void* column;
  uint32_t* valid;
  Key from;
};

struct ResultParams {
  Table table;
  const KeyOutput* keys;
  const Output* outputs;
  const uint64_t* rows;  // of words, by number; null: the key itself is a row of one word
  uint64_t* count;       // of rows, added to
  uint64_t first;        // first row to write
  uint64_t room;         // maximum rows
  uint32_t nkeys;
  uint32_t noutputs;
  uint32_t words;  // of a row
  uint32_t unused;
};

// An index of the numbers of rows of words, by hash. A place holds half of the hash, and a number
// plus one.
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
  uint32_t* used;     // numbers used
  uint32_t* count;    // number of listed rows,
  uint32_t* missing;  // and the rows
  uint32_t* spare;    // of each thread: an unused number, or kNone
  uint32_t n;
  uint32_t nkeys;
  Filter filter;
  uint32_t unused;
};

struct ReindexParams {
  Index from, to;
};

}  // namespace weft::groups
