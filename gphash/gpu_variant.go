package gphash

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/variant"
)

// shape determines how kernels are launched and which ones a variant replaces; see package variant.
type shape struct {
	variant.GPHash
	// kernels that convert slots to the encoding that the variant reads, and back; nil if it reads
	// the usual encoding
	form, plain device.Kernel
}

func newShape(v variant.GPHash) shape {
	v.Lanes, v.MaxRound = cmp.Or(v.Lanes, warp), cmp.Or(v.MaxRound, warp)
	return shape{GPHash: v}
}

// refused is the bit of ChangeParams.lacked for operations that a variant's kernels do not support.
const refused = 2

var errForm = errors.New("slots of another form need keys of 8 bytes in place, " +
	"and a GPU that reads the pool, without mirror, cache, records, atomic batches, growth, or work on the host")

func (k *launcher) loadVariant() error {
	if k.shape.Image == nil {
		return nil
	}
	replaced := map[string]*device.Kernel{"get": &k.get, "change": &k.change, "recycle": &k.recycle}
	var entries []gpu.Entry
	for _, name := range k.shape.Kernels {
		entries = append(entries, gpu.Entry{Name: name, To: replaced[name]})
	}
	if k.shape.Form != "" {
		entries = append(entries,
			gpu.Entry{Name: k.shape.Form, To: &k.shape.form}, gpu.Entry{Name: k.shape.Plain, To: &k.shape.plain})
	}
	return gpu.Load(k.dev, k.shape.Image, entries)
}

// convertSlots converts all slots to the encoding that the variant's kernels read, unless it is the
// usual one.
func (g *gpuEngine) convertSlots(o OpenOptions) error {
	k, t := &g.k, g.host.table
	if k.shape.Form == "" {
		return nil
	}
	hasCopies := o.Mirror || o.Cache > 0 || o.HostFirst
	if hasCopies || t.keySize != 8 || g.host.records() || g.host.redo != nil || t.closed > 0 {
		return fmt.Errorf("%w: %w", op.ErrOptions, errForm)
	}
	err := g.RunSync(uncancelled, func(s *device.Stream) error {
		if err := s.Fill(k.word(wordCrowded), 0, 1); err != nil {
			return err
		}
		return k.convert(s, k.shape.form)
	})
	var failed [1]uint32
	if err == nil {
		err = g.copyOut(device.Bytes(failed[:]), k.word(wordCrowded))
	}
	if err == nil && failed[0] != 0 {
		err = fmt.Errorf("%w: the pool has one: %w", op.ErrOptions, k.shape.Refused)
	}
	g.converted = err == nil
	return err
}

// restoreSlots restores the usual encoding of the control words. No change may run meanwhile.
func (g *gpuEngine) restoreSlots() error {
	if !g.converted || g.onHost.Load() {
		return nil
	}
	return g.RunSync(uncancelled, func(s *device.Stream) error { return g.k.convert(s, g.k.shape.plain) })
}

// convert submits a kernel that converts all slots to another encoding. It does nothing if kernel
// is nil.
func (k *launcher) convert(s *device.Stream, kernel device.Kernel) error {
	if kernel == nil {
		return nil
	}
	return k.launchOnAll(s, kernel)
}
