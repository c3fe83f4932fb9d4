package gphash

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// An index opened without states (ablation.Without.States) has them in the words of its keys, as in the paper: see
// gphash_reserved.cu. While it is open, control words of slots without a key are anything; settleStates makes them right
// for whoever reads those: exports, Check, and the next to open the pool.

// hasReserved is set where a change had operations on keys that are reserved (twin: kHasReserved).
const hasReserved = 2

var (
	errReservedKey = errors.New("the keys 0, 1 and 2, as words of 8 bytes, say the state of a slot, which has no word for it, and are refused")
	errStateless   = errors.New("without states an index has keys of 8 bytes in place, on a GPU that reads the pool: no mirror, cache, records, atomic batches, growth, or work on the host")
)

func (k *launcher) loadReserved() error {
	return gpu.Load(k.dev, &gphashReservedImage, []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "change", To: &k.change}, {Name: "recycle", To: &k.recycle}, {Name: "to_keys", To: &k.toKeys}, {Name: "to_words", To: &k.toWords},
	})
}

// putStatesInKeys begins to have states in keys.
func (g *gpuEngine) putStatesInKeys(o OpenOptions) error {
	k, t := &g.k, g.host.table
	if o.Mirror || o.Cache > 0 || t.keySize != 8 || g.host.records() || g.host.redo != nil || t.closed > 0 || o.HostFirst {
		return fmt.Errorf("%w: %w", op.ErrOptions, errStateless)
	}
	err := g.Do(all, func(s *device.Stream) error {
		if err := s.Fill(k.word(wordCrowded), 0, 1); err != nil {
			return err
		}
		return k.each(s, k.toKeys)
	})
	var refused [1]uint32
	if err == nil {
		err = g.read(device.Bytes(refused[:]), k.word(wordCrowded))
	}
	if err == nil && refused[0] != 0 {
		err = fmt.Errorf("%w: the pool has one: %w", op.ErrOptions, errReservedKey)
	}
	k.stateless = err == nil
	return err
}

// settleStates submits making control words right, if there are no states but in keys. Nothing changes meanwhile.
func (k *launcher) settleStates(s *device.Stream) error {
	if !k.stateless {
		return nil
	}
	return k.each(s, k.toWords)
}

// emptyKeys submits making the slots of an index that is being cleared free, if there are no states but in keys.
func (k *launcher) emptyKeys(s *device.Stream) error {
	if !k.stateless {
		return nil
	}
	return k.each(s, k.toKeys)
}
