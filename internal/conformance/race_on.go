//go:build race

package conformance

// Raced: the race detector is on, which slows everything by thirty. What it can
// find, accesses of goroutines that nothing orders, small tables show as well as
// large ones: tests that are about many keys have fewer then, or none.
const Raced = true

// fast is the scale for fast devices.
const fast Scale = 2_000
