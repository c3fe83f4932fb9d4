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

// planResults holds the results of submitted batches: how many leaves each batch takes, and how
// many the map has after it. A result arrives once the device has planned a batch, with more than
// half of the work on it still to come. So the host can wait for the result and submit the next
// batch before the device runs idle.
type planResults struct {
	records  []byte        // page-locked host memory, one record per batch
	event    *device.Event // recorded after the last record is copied
	reserved []int         // by batch: number of leaves reserved
}

// maxPending is the maximum number of results that the host has not read yet. Once it is reached,
// the host waits for all of them before it submits the next batch.
const maxPending = 64

const leavesBytes = int(unsafe.Sizeof(leavesRecord{}))

func (a *planResults) open(dev device.Device) (err error) {
	if a.event, err = dev.NewEvent(); err != nil {
		return err
	}
	a.records, err = dev.AllocHost(maxPending * leavesBytes)
	return err
}

// close frees the records. All changes must be done.
func (a *planResults) close(dev device.Device) (err error) {
	if a.event != nil {
		err = a.event.Close()
	}
	if a.records != nil {
		err = errors.Join(err, dev.FreeHost(a.records))
	}
	return err
}

// full reports whether readResults must be called before the next batch is submitted.
func (a *planResults) full() bool { return len(a.reserved) == maxPending }

// copyResult submits a copy of a batch's result, from device address at to the next host record.
func (a *planResults) copyResult(s *device.Stream, at device.Ptr) error {
	record := a.records[len(a.reserved)*leavesBytes:][:leavesBytes]
	// an impossible number, until the copy arrives
	batch.View[leavesRecord](record)[0].out = ^uint32(0)
	return errors.Join(s.CopyOutAsync(record, at), s.Record(a.event))
}

// waitRecords waits for the first n records and returns them.
func (a *planResults) waitRecords(n int) ([]leavesRecord, error) {
	if err := a.event.Sync(context.Background()); err != nil {
		return nil, err
	}
	records := batch.View[leavesRecord](a.records)[:n]
	for _, l := range records {
		if l.out > maxLeaves { // report corrupt records instead of allocating memory for them
			return nil, fmt.Errorf("ordered: the device reports %d leaves after a batch, but there are at most %d", l.out, maxLeaves)
		}
	}
	return records, nil
}

// waitPlanned waits for the result of the batch that has been planned but not yet written.
func (a *planResults) waitPlanned() (leavesRecord, error) {
	records, err := a.waitRecords(len(a.reserved) + 1)
	if err != nil {
		return leavesRecord{}, err
	}
	return records[len(a.reserved)], nil
}

// readResults waits for the results of all batches. It makes leaves available that were reserved
// but not taken.
func (e *gpuEngine) readResults() error {
	a := &e.results
	if len(a.reserved) == 0 {
		return nil
	}
	records, err := a.waitRecords(len(a.reserved))
	if err != nil {
		return err
	}
	// A record of 0 means that a batch was laid out without a plan, since the map was empty. The
	// number of leaves must be read with the counters.
	if slices.ContainsFunc(records, func(l leavesRecord) bool { return l.out == 0 }) {
		_, err := e.ReadCounters(context.Background())
		return err
	}
	for i, l := range records {
		e.pool.minFree += a.reserved[i] - int(l.fresh)
		e.current().maxLeaves = int(l.out)
	}
	a.reserved = a.reserved[:0]
	return nil
}
