// Package distinct counts the distinct items of byte streams exactly: lines, words or records of
// fixed size. It computes the same as "sort | uniq -c", with memory for the distinct items only, or
// less with a temporary file.
//
// A stream is read in pieces of whole items. Every core takes ranges of a piece and looks up each
// item in a small table of its own (cache.go). Text repeats itself, so most items end there as one
// increment. Evicted items become rows of package group, with their counts, which it adds up. If
// few items repeat soon, all become rows at once.
package distinct
