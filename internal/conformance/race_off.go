//go:build !race

package conformance

// fast is the scale for fast devices.
const fast = Fast
