// Package inorder contains code shared by structures that store keys in sorted arrays: the layout
// of their memory, and helpers for engines on a CPU with immutable generations. The helpers divide
// sorted batches into parts and search for many keys at once.
package inorder
