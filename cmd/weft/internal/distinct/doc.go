// Package distinct counts the distinct items of byte streams exactly. Items are lines, words or
// records of fixed size. It computes the same as "sort | uniq -c", but holds only the distinct
// items in memory, or fewer with a temporary file.
//
// A stream is read in pieces of whole items. Each core takes ranges of a piece, and counts items in
// its own small cache (cache.go). Most items of a text are repetitions, which only increment a
// count in the cache. Evicted items and their counts become rows for package group, which adds them
// up. If few items of a range are in the cache, the next ranges bypass it.
package distinct
