// Package simulator lets device/auto open simulated GPUs without linking device/sim.
package simulator

import "github.com/weftgo/weft/device"

// Open opens the simulated GPU that choice names. An init function of device/sim sets it. It is nil
// in a program that does not import device/sim.
var Open func(choice string) (device.Device, error)
