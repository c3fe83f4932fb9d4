// Package inorder holds what structures of ordered key arrays share: the layout of their memory.
// For engines on a CPU with immutable generations it cuts sorted batches into parts, and searches
// for many keys side by side.
package inorder
