package groups

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// streamOrder orders work of several streams, one after the other.
type streamOrder struct {
	changed *device.Event  // recorded after the last work
	last    *device.Stream // stream of the last work; nil: none yet
}

func (t *streamOrder) open(dev device.Device) (err error) {
	t.changed, err = dev.NewEvent()
	return err
}

// submit runs work after that of other streams, and records its end.
func (t *streamOrder) submit(s *device.Stream, work func() error) error {
	if t.last != nil && t.last != s {
		if err := s.Wait(t.changed); err != nil {
			return err
		}
	}
	err := work()
	t.last = s
	if e := s.Record(t.changed); e != nil { // no event marks the end of the work, so wait
		err = errors.Join(err, e, s.Sync(context.Background()))
	}
	return err
}

// close waits for all work. Idempotent.
func (t *streamOrder) close() (err error) {
	if t.changed != nil {
		err = errors.Join(t.changed.Sync(context.Background()), t.changed.Close())
	}
	t.changed = nil
	return err
}
