// Package distinct counts the distinct items of streams of bytes, exactly:
// lines, words or records of fixed size. It is what "sort | uniq -c" computes,
// with memory for the distinct items only, or for less with a temporary file.
//
// A stream is read in pieces that hold whole items. Every core takes ranges of
// the piece and looks each item up in a small table of its own (cache.go).
// Text repeats itself, so most items end there as one increment. Items that
// leave the table are rows, with their counts, of package group, which adds the
// counts up. Where few items repeat soon, all are rows at once.
package distinct
