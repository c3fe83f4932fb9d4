package auto

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// Entry describes a device of this machine, or the reason why no GPU was found.
type Entry struct {
	Choice     string            // argument with which [Open] opens the device, e.g. "cuda:1"
	Properties device.Properties // zero if they could not be read
	Memory     device.Memory     // zero if Err is not nil
	Err        error             // why the device cannot be used, or nil if it can
}

// List describes all devices of this machine: first the CPU, then the GPUs. If the GPUs cannot be
// listed, one entry "cuda" holds the error. List opens each device for a moment.
func List() []Entry { return system.entries() }

func (s *sources) entries() []Entry {
	host := Entry{Choice: "cpu"}
	if dev, err := s.cpu(); err != nil {
		host.Err = err
	} else {
		host.Properties = dev.Properties()
		host.Memory, host.Err = dev.Memory()
		host.Err = errors.Join(host.Err, dev.Close())
	}
	list := []Entry{host}
	gpus, err := s.list()
	if err != nil {
		return append(list, Entry{Choice: "cuda", Properties: device.Properties{Kind: device.CUDA}, Err: err})
	}
	for _, p := range gpus {
		e := Entry{Choice: choiceOf(p.Index), Properties: p}
		dev, memory, err := s.openWithMemory(p.Index)
		if err == nil {
			e.Memory = memory
			err = dev.Close()
		}
		e.Err = err
		list = append(list, e)
	}
	return list
}
