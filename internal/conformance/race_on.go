//go:build race

package conformance

// fast is the scale for fast devices: the race detector slows them by thirty.
const fast Scale = 2_000
