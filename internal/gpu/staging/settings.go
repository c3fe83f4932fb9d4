package staging

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/weftgo/weft/device"
)

// Settings are the values that a test may change for the rings of a device. A zero field selects
// the default.
type Settings struct {
	// PieceBytes is the maximum size of the columns that a piece copies in one direction. A piece
	// has at least one row. If all columns are page-locked, pieces are still up to four times as
	// large.
	PieceBytes int
	// Slots is the maximum number of pieces in flight.
	Slots int
	// Order, if set, makes Run execute the phases of all pieces one at a time on the calling
	// goroutine. Order picks one of the n slots that can continue, by an index below n; n is at
	// least 1. A piece is sent, decided on after the previous piece, submitted, and finished.
	// RunInOrder submits a piece when it decides on it. If Slots is also set, the results of Order
	// determine the sequence of device calls. All Runs on the device call the same Order.
	Order func(n int) int
}

// configured maps devices under test to their Settings.
var configured sync.Map

// Configure sets the settings of the rings that structures create on dev until undo is called.
// Structures create rings themselves when needed, so tests cannot pass settings to them. dev is the
// device that the structure is opened on, including all wrappers.
func Configure(dev device.Device, s Settings) (undo func()) {
	configured.Store(dev, s)
	return func() { configured.Delete(dev) }
}

func settingsOf(dev device.Device) Settings {
	var s Settings
	if v, ok := configured.Load(dev); ok {
		s = v.(Settings)
	}
	s.PieceBytes = cmp.Or(s.PieceBytes, pieceBytes)
	s.Slots = cmp.Or(s.Slots, min(maxSlots, 2*runtime.GOMAXPROCS(0)))
	return s
}
