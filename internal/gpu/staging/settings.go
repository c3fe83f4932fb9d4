package staging

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/weftgo/weft/device"
)

// Settings are what a test changes of the rings of a device. A zero field
// leaves that as it is.
type Settings struct {
	// PieceBytes is the most that a piece copies in one direction, in bytes; a
	// piece has one row at least. Where all columns are page-locked, pieces are
	// up to four times as large, as usual.
	PieceBytes int
	// Segments is how many pieces are under way at most.
	Segments int
	// Order makes Run go through the phases of all its pieces on the goroutine
	// that called it, one at a time: it picks one of the n > 0 segments that can
	// go on, by its position among them. A piece is sent, then decided on in
	// its turn, then submitted, then finished; RunInOrder submits it in its
	// turn. With Segments set, what Order returns decides the sequence of calls of
	// the device. Order is called by all Runs of the device.
	Order func(n int) int
}

// configured has the Settings of devices under test.
var configured sync.Map

// Configure gives settings to the rings of a device that are made from now on
// until undo. Structures make rings when they need them, and are given the
// device, so settings reach the rings without passing through them: dev is the
// one that the structure under test is opened on, with what is wrapped around
// it.
func Configure(dev device.Device, s Settings) (undo func()) {
	configured.Store(dev, s)
	return func() { configured.Delete(dev) }
}

// settingsOf are the settings of a new ring.
func settingsOf(dev device.Device) Settings {
	var s Settings
	if v, ok := configured.Load(dev); ok {
		s = v.(Settings)
	}
	s.PieceBytes = cmp.Or(s.PieceBytes, pieceBytes)
	s.Segments = cmp.Or(s.Segments, min(maxSegments, 2*runtime.GOMAXPROCS(0)))
	return s
}
