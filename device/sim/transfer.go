package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftgo/weft/device"
)

// transfer is a copy or a fill. It runs in pieces, and other works run between them. A kernel that
// is not ordered with the transfer may therefore see a part of it.
type transfer struct {
	kind     transferKind
	to, from uint64 // addresses; 0 for host memory
	size     int    // in bytes
	done     int    // number of bytes moved so far
	pattern  uint32 // pattern of a fill
	target   *segment
	source   *segment

	host      []byte // source or target in host memory
	async     bool   // whether host is memory of the caller
	submitted []byte // contents of host at submission
	// dropped marks a copy that still runs, but whose result is not read. It races with no access.
	dropped bool

	// These fields serve the search for races: the numbers of the thread and the block as which the
	// transfer accesses memory, and the view ordered before it.
	thread, block int
	before        *view
}

type transferKind uint8

const (
	transferIn transferKind = iota
	transferOut
	transferWithin
	transferFill
)

// copyRate is the number of bytes that a copy moves in one tick of the clock. An H200 moves about
// as many in a nanosecond.
const copyRate = 4096

// unfilled is the byte that fills the host memory of an asynchronous copy until the copy is done.
const unfilled = 0xdb

// String describes the transfer for error messages.
func (t *transfer) String() string {
	switch t.kind {
	case transferIn:
		return fmt.Sprintf("copy of %d bytes from the host to 0x%x", t.size, t.to)
	case transferOut:
		return fmt.Sprintf("copy of %d bytes from 0x%x to the host", t.size, t.from)
	case transferWithin:
		return fmt.Sprintf("copy of %d bytes from 0x%x to 0x%x", t.size, t.from, t.to)
	}
	return fmt.Sprintf("fill of %d bytes at 0x%x", t.size, t.to)
}

// prepare checks a transfer at its submission. If the transfer is an asynchronous copy to the
// device, prepare records the contents of its host memory. If it is one from the device, prepare
// fills that memory with a pattern.
func (t *transfer) prepare(s *stream) error {
	var reason string
	d := s.dev
	switch {
	case t.size < 0:
		reason = fmt.Sprintf("a copy of %d bytes", t.size)
	case t.size == 0:
		return nil
	case t.kind == transferFill && t.to%4 != 0:
		reason = fmt.Sprintf("address 0x%x is not aligned to 4 bytes", t.to)
	}
	if reason == "" && t.kind != transferOut {
		t.target, reason = d.heap.find(t.to, t.size)
	}
	if reason == "" && (t.kind == transferOut || t.kind == transferWithin) {
		t.source, reason = d.heap.find(t.from, t.size)
	}
	if reason != "" {
		return fmt.Errorf("sim: copy: %w: %s", device.ErrInvalid, reason)
	}
	if !t.async || t.followsCopy(s) {
		return nil
	}
	if t.kind == transferIn {
		t.submitted = bytes.Clone(t.host)
		return nil
	}
	for i := range t.host {
		t.host[i] = unfilled
	}
	return nil
}

// followsCopy reports whether a copy uses host memory that an earlier unfinished copy in the other
// direction also uses. Until the earlier copy is done, that memory must not be recorded or filled.
func (t *transfer) followsCopy(s *stream) bool {
	return slices.ContainsFunc(s.dev.copies, func(w *work) bool {
		o := w.transfer
		return !w.done && o.kind != t.kind && s.after.include(w) && overlap(o.host, t.host)
	})
}

// pieceAlign is the alignment of pieces of a transfer in device memory. It is larger than a word,
// so that no word is written in two pieces.
const pieceAlign = 32

// nextEnd returns the end of the next piece: the end of the transfer, or a random byte before it.
func (t *transfer) nextEnd(rng *rand.Rand) int {
	remaining := t.size - t.done
	if rng == nil || remaining <= pieceAlign || t.overlaps() || rng.IntN(4) == 0 {
		return t.size
	}
	at := t.to
	if t.kind == transferOut {
		at = t.from
	}
	end := int((at+uint64(t.done+1+rng.IntN(remaining)))&^(pieceAlign-1) - at)
	if end <= t.done {
		end = int((at+uint64(t.done))&^(pieceAlign-1)+pieceAlign) - int(at)
	}
	return min(end, t.size)
}

// overlaps reports whether a copy within the device reads bytes that it writes. Such a copy runs in
// one piece.
func (t *transfer) overlaps() bool {
	return t.kind == transferWithin && t.to < t.from+uint64(t.size) && t.from < t.to+uint64(t.size)
}

// runPiece runs the next piece of a transfer.
func (d *Device) runPiece(w *work) {
	t := w.transfer
	if t.done == 0 {
		w.stream.addObserved(w.observed)
	}
	lo, hi := t.done, t.nextEnd(d.rng)
	if d.trace != nil {
		d.trace.piece(w, lo, hi)
	}
	if t.submitted != nil && !bytes.Equal(t.host[lo:hi], t.submitted[lo:hi]) {
		d.markLost(&Fault{Reason: "host memory changed while an asynchronous copy still reads it", Work: w.String()})
		return
	}
	if d.views != nil && !t.dropped && !d.views.transfer(w, lo, hi) {
		return
	}
	t.move(lo, hi)
	t.done = hi
	if d.views != nil && t.target != nil {
		off := t.to - t.target.base
		d.views.pushTransfer(w, t.target, off+uint64(lo), off+uint64(hi))
	}
	if t.done == t.size {
		d.clock += uint64(t.size) / copyRate
		d.finish(w)
		t.releaseHost()
	}
}

// releaseHost drops the transfer's own copies of host memory, because segments keep the transfer in
// their users.
func (t *transfer) releaseHost() {
	t.submitted = nil
	if t.kind == transferIn && !t.async {
		t.host = nil
	}
}

// move moves the bytes [lo,hi) of the transfer.
func (t *transfer) move(lo, hi int) {
	switch t.kind {
	case transferOut:
		copy(t.host[lo:hi], t.source.data[int(t.from-t.source.base)+lo:])
	case transferIn:
		to := int(t.to - t.target.base)
		copy(t.target.data[to+lo:], t.host[lo:hi])
		t.target.mark(to+lo, hi-lo, true)
	case transferWithin:
		to, from := int(t.to-t.target.base), int(t.from-t.source.base)
		t.target.copyFrom(to+lo, t.source, from+lo, hi-lo)
	case transferFill:
		to := int(t.to - t.target.base)
		words := t.target.data[to+lo : to+hi]
		binary.LittleEndian.PutUint32(words, t.pattern)
		for n := 4; n < len(words); n *= 2 {
			copy(words[n:], words[:n])
		}
		t.target.mark(to+lo, hi-lo, true)
	}
}
