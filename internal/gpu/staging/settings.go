package staging

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/weftgo/weft/device"
)

// Settings are the values that a test changes for the rings of a device. A zero field keeps the
// default.
type Settings struct {
	// PieceBytes is the maximum that a piece copies in one direction, in bytes; a piece has at
	// least one row. If all columns are page-locked, pieces are up to four times as large, as
	// usual.
	PieceBytes int
	// Slots is the maximum number of pieces in flight.
	Slots int
	// Order makes Run go through the phases of all its pieces on the goroutine that called it, one
	// at a time. Order picks one of the n > 0 slots that can continue, by its position among
	// them. A piece is sent, then decided on in its turn, then submitted, then finished; RunInOrder
	// submits it in its turn. With Slots set, the results of Order determine the sequence of
	// calls of the device. All Runs of the device call Order.
	Order func(n int) int
}

// configured holds the Settings of devices under test.
var configured sync.Map

// Configure sets the settings of rings that are made on a device from now on, until undo.
// Structures make rings when they need them, on the device, so settings need not be passed through
// structures. dev is the device that the structure under test is opened on, including all wrappers.
func Configure(dev device.Device, s Settings) (undo func()) {
	configured.Store(dev, s)
	return func() { configured.Delete(dev) }
}

// settingsOf returns the settings of a new ring.
func settingsOf(dev device.Device) Settings {
	var s Settings
	if v, ok := configured.Load(dev); ok {
		s = v.(Settings)
	}
	s.PieceBytes = cmp.Or(s.PieceBytes, pieceBytes)
	s.Slots = cmp.Or(s.Slots, min(maxSlots, 2*runtime.GOMAXPROCS(0)))
	return s
}
