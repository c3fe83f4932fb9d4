//go:build !race

package slab_test

import "github.com/weftgo/weft/internal/conformance"

// fast is the scale for fast devices.
const fast = conformance.Fast
