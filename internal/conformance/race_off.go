//go:build !race

package conformance

// Raced reports whether the race detector is on.
const Raced = false

const fast = Fast
