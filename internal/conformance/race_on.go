//go:build race

package conformance

// Raced reports whether the race detector is on, which slows everything by a factor of thirty.
// Small tables show unordered accesses of goroutines as well as large ones, so tests of many keys
// use fewer keys then, or are skipped.
const Raced = true

// fast is the scale of fast devices.
const fast Scale = 2_000
