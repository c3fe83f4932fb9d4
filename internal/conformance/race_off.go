//go:build !race

package conformance

// Raced reports whether the race detector is on.
const Raced = false

// fast is the scale of fast devices.
const fast = Fast
