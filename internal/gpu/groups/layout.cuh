// The layout of groups in GPU memory, and the parameters of the kernels. groups.go explains the
// layout.
#pragma once

#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::groups {

// Threads per block, and blocks per multiprocessor. Each block has a local table in shared memory.
// lab/GROUPS.md has the reasons for these constants and those below, and the measurements.
constexpr uint32_t kThreads = 256, kBlocks = 4;
constexpr uint32_t kLocalBytes = 48 * 1024 - 64;

// The maximum number of cells that a search for a key probes in a local table. With 1000 groups, a
// local table has a load of 0.65, and one key in three hundred finds no cell.
constexpr uint32_t kLocalProbes = 8;

// A local table was useful if it has combined at least kMinHitsPerCell rows per cell.
constexpr uint32_t kMinHitsPerCell = 2;

// A block flushes its local table after a round in which fewer than one row in kMinHitShare found
// its key there.
constexpr uint32_t kMinHitShare = 8;

// The maximum number of rounds without a local table after a table that was not useful.
constexpr uint32_t kMaxPauseRounds = 64;

constexpr uint32_t kNone = kAll;

// Types of keys and values. groups.go has the same numbers. Floats come last, and signed integers
// have even numbers.
enum Type : uint32_t { kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64, kBool, kFloat32, kFloat64 };

// How a field combines values. kNulls counts nulls, and all other operations ignore nulls. The last
// two operations keep the number of a row and its value.
enum Op : uint32_t { kSum, kSumFloat, kMin, kMax, kNulls, kFirstRow, kLastRow };

// A record consists of 64-bit words. Word 0 is the key with all bits inverted, so 0 means no key.
// Word kCount is the number of rows, and the words of the fields begin at kFirst. The key with all
// bits set has its own record after the last slot.
constexpr uint32_t kCount = 1, kFirst = 2;

struct Table {
  uint64_t* records;
  uint64_t seed;
  uint32_t slots;
  uint32_t words;  // words per record
};

// Column is a column of values. Row i has bit offset + i of the bitmap valid. A value is null if
// its bit is 0.
struct Column {
  const void* values;
  const uint8_t* valid;  // null pointer: no value is null
  uint64_t offset;
};

// Key locates a key column in a row of words. The column has the bits of its value, and a null bit
// if values may be null.
struct Key {
  Column column;
  Type type;
  uint32_t word, shift;
  uint32_t null_word, null_shift;  // kNone: no null bit
  uint32_t unused;
};

// Filter selects rows: all rows, rows without a null key, or rows with a null key.
enum Filter : uint32_t { kAllRows, kWithoutNulls, kWithNulls };

// Field describes what a record keeps of a column of values. A sum of integers takes two words, and
// so does a first or last row. Other fields take one word.
struct Field {
  Column column;
  Op op;
  Type type;
  uint32_t at;     // first word in a record
  uint32_t local;  // offset in a local table, in bytes
};

// Head is the state of a table on the device.
struct Head {
  uint32_t used;  // number of records with a key
  uint32_t full;  // not 0: rows have overflowed, or some rows are not processed yet
  uint32_t over;  // not 0: a sum exceeds 2^94
  uint32_t unused;
};

struct AddParams {
  Table table;
  Head* head;
  const void* keys;  // values of one column, or numbers of long keys
  const Key* columns;
  const Field* fields;
  uint64_t base;     // number of rows in earlier batches
  uint32_t* rounds;  // number of rounds that each block has done
  uint32_t* listed;  // number of rows of each block that overflowed
  uint32_t* lists;   // these rows; each block has space for one round
  uint32_t n;
  uint32_t round;   // rows per round, a multiple of a tile
  uint32_t limit;   // maximum number of records with a key
  uint32_t probes;  // maximum number of probes for a key
  uint32_t cells;   // cells per local table; odd
  uint32_t nfields;
  Type key;         // type of the values in keys, if keys is one column
  uint32_t ncolumns;
  Filter filter;
  uint32_t numbered;  // not 0: keys are numbers; a row with number kNone is skipped
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

// Func is the function that computes a column of results.
enum Func : uint32_t { kRows, kCountOf, kSumOf, kMeanOf, kSumOfFloats, kMeanOfFloats, kLeast, kGreatest, kBeyond, kRowOf };

struct Output {
  void* column;     // results in the type of the values; counts, sums and means have 64 bits
  uint32_t* valid;  // one bit per row, all 0 before; null pointer: no nulls
  uint64_t* over;   // receives 1 plus the row of a sum that overflows 64 bits
  Func func;
  Type type;       // type of the values
  uint32_t at;     // first word in a record
  uint32_t nulls;  // word that counts nulls; 0: no nulls
};

// KeyOutput is the output of a key column.
struct KeyOutput {
  void* column;
  uint32_t* valid;
  Key from;
};

struct ResultParams {
  Table table;
  const KeyOutput* keys;
  const Output* outputs;
  const uint64_t* rows;  // rows of words, by number; null: a key is itself a row of one word
  uint64_t* count;       // the kernel adds the number of rows
  uint64_t first;        // first row to write
  uint64_t room;         // maximum number of rows to write
  uint32_t nkeys;
  uint32_t noutputs;
  uint32_t words;  // words per row
  uint32_t unused;
};

// Index is a hash table with the numbers of rows of words. An entry of places holds the upper half
// of a hash, and a number plus one.
struct Index {
  uint64_t* places;
  uint64_t* rows;  // rows of words, by number
  uint64_t seed;
  uint32_t slots;
  uint32_t words;
};

struct NumberParams {
  Index index;
  const Key* keys;
  uint32_t* numbers;  // number of each row; kNone: the filter rejects the row
  uint32_t* used;     // number of numbers taken
  uint32_t* count;    // number of rows in missing
  uint32_t* missing;  // rows that have no number from an earlier launch
  uint32_t* spare;    // unused number of each thread, or kNone
  uint32_t n;
  uint32_t nkeys;
  Filter filter;
  uint32_t unused;
};

struct ReindexParams {
  Index from, to;
};

}  // namespace weft::groups
