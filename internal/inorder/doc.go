// Package inorder is what structures have in common whose keys are arrays in order: where these lie in memory, and
// on a CPU engines whose generations never change, that cut sorted batches into parts, and search for many keys side by
// side.
package inorder
