//go:build !race

package conformance

// Raced: the race detector is off.
const Raced = false

// fast is the scale for fast devices.
const fast = Fast
