// Package distinct counts the distinct items of streams of bytes, exactly:
// lines, words or records of fixed size. It is what "sort | uniq -c" computes,
// with memory for the distinct items only.
//
// # How an item is counted
//
// A stream is read in pieces that hold whole items. Every core takes ranges of
// the piece and, for each item in them, forms a 64-bit key and looks it up in
// a small table of its own (cache.go). Text repeats itself, so most items end
// there as one increment. Items not found there are collected and resolved in
// one batch per round (resolve.go): the index, on whatever device the caller
// chose, numbers their keys.
//
// Package intern does what follows the caches, by the same index and arenas. A counter does
// not go through it, since the caches compare items that are found in them, on
// all cores at once, and have to reach their bytes by one word.
//
// # Why it is exact
//
// An item of up to 7 bytes is its own key: the key is a bijection of length
// and bytes (package arena). The key of a longer item is a seeded hash, and wherever
// two keys are equal the bytes are compared as well. Two items of one hash
// cannot share a slot of the index; the later one goes to a plain Go map,
// which stays empty unless a 63-bit hash collides.
package distinct
