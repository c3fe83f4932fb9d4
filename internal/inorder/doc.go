// Package inorder is what engines on a CPU have in common whose keys are arrays in order: they cut
// sorted batches into parts, and search for many keys side by side.
package inorder
