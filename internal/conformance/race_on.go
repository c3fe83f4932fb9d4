//go:build race

package conformance

// Raced reports whether the race detector is on. It slows tests by a factor of thirty. Small tables
// reveal unordered accesses as well as large tables, so tests with many keys then use fewer keys or
// are skipped.
const Raced = true

const fast Scale = 2_000
