package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/group"
)

// ErrMismatch means that ranks called different methods, or methods of structures with different
// types. No rank has done anything, and the ranks can continue.
var ErrMismatch = errors.New("ranks make different calls")

// Error is the error of a call. All ranks return the error of the lowest rank that failed.
// errors.Is finds the errors of packages weft and device that the failed rank wraps, and errors of
// contexts and files.
type Error struct {
	Rank int
	Text string // error text of that rank, at most 256 bytes
	is   uint64 // bit i is set for sentinels[i]
}

// Error returns the rank and the text.
func (e *Error) Error() string { return fmt.Sprintf("shard: rank %d: %s", e.Rank, e.Text) }

// Is reports whether the error of the failed rank wraps target.
func (e *Error) Is(target error) bool {
	for i, err := range sentinels {
		if e.is>>i&1 != 0 && target == err {
			return true
		}
	}
	return false
}

// sentinels are the errors that Error.Is finds on other ranks.
var sentinels = []error{
	weft.ErrClosed, weft.ErrFull, weft.ErrOptions, weft.ErrFormat, weft.ErrCorrupt,
	device.ErrMemory, device.ErrLost, device.ErrInvalid, device.ErrUnsupported, device.ErrNoKernels,
	group.ErrOverflow,
	context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, fs.ErrPermission,
}

// cause returns the cause of a PartialError, without the rows, which are not rows of the caller.
func cause(err error) error {
	if p := (*weft.PartialError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Words that a rank sends at the end of a call.
const (
	endState = iota // 0, or endFailed and a bit per sentinel
	endCount        // count of the rank
	endWords

	endFailed = 1 << 63
	textWords = 32
)

// outcome ends a call on all ranks. It returns the sum of their counts. If any rank passes an
// error, all ranks return an error.
func (r *Ranks) outcome(err error, count uint64) (total uint64, _ error) {
	own := [endWords]uint64{endCount: count}
	if err != nil {
		own[endState] = endFailed
		for i, s := range sentinels {
			if errors.Is(err, s) {
				own[endState] |= 1 << i
			}
		}
	}
	if err := r.comm.AllGather(context.Background(), own[:], r.ends); err != nil {
		return 0, r.commError(err)
	}
	first := -1
	for i := range r.size {
		total += r.ends[i*endWords+endCount]
		if first < 0 && r.ends[i*endWords+endState] != 0 {
			first = i
		}
	}
	if first < 0 {
		return total, nil
	}
	text, lost := r.text(first, err)
	if lost != nil {
		return total, lost
	}
	return total, &Error{Rank: first, Text: text, is: r.ends[first*endWords+endState] &^ endFailed}
}

// text sends the text of the given rank's error to all ranks, and returns it.
func (r *Ranks) text(rank int, err error) (string, error) {
	var text [textWords * 8]byte
	if err != nil {
		copy(text[:], cause(err).Error())
	}
	own, all := make([]uint64, textWords), make([]uint64, textWords*r.size)
	for i := range own {
		own[i] = binary.LittleEndian.Uint64(text[8*i:])
	}
	if err := r.comm.AllGather(context.Background(), own, all); err != nil {
		return "", r.commError(err)
	}
	for i, w := range all[rank*textWords:][:textWords] {
		binary.LittleEndian.PutUint64(text[8*i:], w)
	}
	return string(bytes.TrimRight(text[:], "\x00")), nil
}
