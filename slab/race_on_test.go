//go:build race

package slab_test

import "github.com/weftgo/weft/internal/conformance"

// fast is the scale for fast devices: the race detector slows them by thirty.
const fast conformance.Scale = 2_000
