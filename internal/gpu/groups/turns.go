package groups

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// turns orders work that streams do one after the other.
type turns struct {
	changed *device.Event  // behind the last
	last    *device.Stream // that does it; nil: there has been none
}

func (t *turns) open(dev device.Device) (err error) {
	t.changed, err = dev.NewEvent()
	return err
}

// submit runs work behind that of other streams, and marks its end.
func (t *turns) submit(s *device.Stream, work func() error) error {
	if t.last != nil && t.last != s {
		if err := s.Wait(t.changed); err != nil {
			return err
		}
	}
	err := work()
	t.last = s
	if e := s.Record(t.changed); e != nil { // nothing else tells when it is over
		err = errors.Join(err, e, s.Sync(context.Background()))
	}
	return err
}

// close waits for all work. Idempotent.
func (t *turns) close() (err error) {
	if t.changed != nil {
		err = errors.Join(t.changed.Sync(context.Background()), t.changed.Close())
	}
	t.changed = nil
	return err
}
