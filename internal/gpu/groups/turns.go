package groups

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// streamOrder makes work on several streams run one after the other.
type streamOrder struct {
	changed *device.Event  // recorded after the last work
	last    *device.Stream // stream of the last work; nil if none
}

func (t *streamOrder) open(dev device.Device) (err error) {
	t.changed, err = dev.NewEvent()
	return err
}

// submit calls work, which submits work to s. That work runs after all previous work.
func (t *streamOrder) submit(s *device.Stream, work func() error) error {
	if t.last != nil && t.last != s {
		if err := s.Wait(t.changed); err != nil {
			return err
		}
	}
	err := work()
	t.last = s
	// without an event, only a wait ensures that the work has ended
	if e := s.Record(t.changed); e != nil {
		err = errors.Join(err, e, s.Sync(context.Background()))
	}
	return err
}

// close waits for all work. Further calls do nothing.
func (t *streamOrder) close() (err error) {
	if t.changed != nil {
		err = errors.Join(t.changed.Sync(context.Background()), t.changed.Close())
	}
	t.changed = nil
	return err
}
