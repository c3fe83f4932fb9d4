package ordered

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// ahead is what batches come to that have been submitted: how many leaves each leaves behind, and how many it has taken. The device
// knows that once it has planned a batch, when more than half of its work is still to come; so the host, waiting
// for it, can submit the next batch before the device has nothing to do.
type ahead struct {
	host     []byte        // page-locked: a record for each
	event    *device.Event // behind the last of them
	reserved []int         // leaves that have been set aside for each
}

// mostAhead is how many batches may be submitted before the host waits for what the first of them have come to.
const mostAhead = 64

const leavesBytes = int(unsafe.Sizeof(leavesRecord{}))

func (a *ahead) open(dev device.Device) (err error) {
	if a.event, err = dev.NewEvent(); err != nil {
		return err
	}
	a.host, err = dev.AllocHost(mostAhead * leavesBytes)
	return err
}

// close comes when all changes have been waited for.
func (a *ahead) close(dev device.Device) (err error) {
	if a.event != nil {
		err = a.event.Close()
	}
	if a.host != nil {
		err = errors.Join(err, dev.FreeHost(a.host))
	}
	return err
}

// full tells that no batch may be submitted before learn.
func (a *ahead) full() bool { return len(a.reserved) == mostAhead }

// tell submits telling what a batch comes to, which lies at a place by then.
func (a *ahead) tell(s *device.Stream, at device.Ptr) error {
	record := a.host[len(a.reserved)*leavesBytes:][:leavesBytes]
	batch.View[leavesRecord](record)[0].out = ^uint32(0) // more leaves than there can be, until it comes
	return errors.Join(s.CopyOutAsync(record, at), s.Record(a.event))
}

// known waits for n records, and returns them.
func (a *ahead) known(n int) ([]leavesRecord, error) {
	if err := a.event.Sync(context.Background()); err != nil {
		return nil, err
	}
	records := batch.View[leavesRecord](a.host)[:n]
	for _, l := range records {
		if l.out > maxLeaves { // rather than memory for so many
			return nil, fmt.Errorf("ordered: a batch is said to leave %d leaves behind; there are %d at most", l.out, maxLeaves)
		}
	}
	return records, nil
}

// last waits for what the batch comes to that has been planned and not been written.
func (a *ahead) last() (leavesRecord, error) {
	records, err := a.known(len(a.reserved) + 1)
	if err != nil {
		return leavesRecord{}, err
	}
	return records[len(a.reserved)], nil
}

// learn waits until it is known what all batches come to, and sets free what has been set aside for them in vain.
func (e *gpuEngine) learn() error {
	a := &e.ahead
	if len(a.reserved) == 0 {
		return nil
	}
	records, err := a.known(len(a.reserved))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(records, func(l leavesRecord) bool { return l.out == 0 }) { // the map is empty, or was, and its pairs were laid out without a plan
		_, err := e.Counters(context.Background())
		return err
	}
	for i, l := range records {
		e.pool.left += a.reserved[i] - int(l.fresh)
		e.now().most = int(l.out)
	}
	a.reserved = a.reserved[:0]
	return nil
}
