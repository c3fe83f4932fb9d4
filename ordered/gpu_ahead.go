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

// ahead holds the results of submitted batches: the number of leaves after each, and the number
// that it has taken. They are available once the device has planned a batch, with more than half of
// its work still to come. So the host can wait for them and submit the next batch before the device
// runs idle.
type ahead struct {
	host     []byte        // page-locked: a record for each batch
	event    *device.Event // recorded after the last of them
	reserved []int         // leaves reserved for each
}

// mostAhead is the maximum number of batches to submit before the host waits for the results of the
// first.
const mostAhead = 64

const leavesBytes = int(unsafe.Sizeof(leavesRecord{}))

func (a *ahead) open(dev device.Device) (err error) {
	if a.event, err = dev.NewEvent(); err != nil {
		return err
	}
	a.host, err = dev.AllocHost(mostAhead * leavesBytes)
	return err
}

// close is called after all changes have been waited for.
func (a *ahead) close(dev device.Device) (err error) {
	if a.event != nil {
		err = a.event.Close()
	}
	if a.host != nil {
		err = errors.Join(err, dev.FreeHost(a.host))
	}
	return err
}

// full reports whether learn must be called before the next batch is submitted.
func (a *ahead) full() bool { return len(a.reserved) == mostAhead }

// tell submits copying the result of a batch from an address to the host.
func (a *ahead) tell(s *device.Stream, at device.Ptr) error {
	record := a.host[len(a.reserved)*leavesBytes:][:leavesBytes]
	// more leaves than can exist, until the copy arrives
	batch.View[leavesRecord](record)[0].out = ^uint32(0)
	return errors.Join(s.CopyOutAsync(record, at), s.Record(a.event))
}

// known waits for n records and returns them.
func (a *ahead) known(n int) ([]leavesRecord, error) {
	if err := a.event.Sync(context.Background()); err != nil {
		return nil, err
	}
	records := batch.View[leavesRecord](a.host)[:n]
	for _, l := range records {
		if l.out > maxLeaves { // instead of allocating memory for that many
			return nil, fmt.Errorf("ordered: a batch is said to leave %d leaves behind; there are %d at most", l.out, maxLeaves)
		}
	}
	return records, nil
}

// last waits for the result of the batch that has been planned but not written.
func (a *ahead) last() (leavesRecord, error) {
	records, err := a.known(len(a.reserved) + 1)
	if err != nil {
		return leavesRecord{}, err
	}
	return records[len(a.reserved)], nil
}

// learn waits for the results of all batches, and releases the leaves that were reserved for them
// in vain.
func (e *gpuEngine) learn() error {
	a := &e.ahead
	if len(a.reserved) == 0 {
		return nil
	}
	records, err := a.known(len(a.reserved))
	if err != nil {
		return err
	}
	// If the map is or was empty, its pairs were laid out without a plan.
	if slices.ContainsFunc(records, func(l leavesRecord) bool { return l.out == 0 }) {
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
