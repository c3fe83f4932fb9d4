// Package inorder is what engines on a CPU have in common whose keys are arrays in order: they cut
// sorted batches into parts, search for many keys side by side, and give pairs of several ranges
// to the first of them.
package inorder
