package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
)

// rivals prepares the indexes that figures of the GPHash paper compare, for keys of one size. On a
// GPU, batches and results lie in its memory. The indexes then work there in place, or on the host
// with copies of batches and results (section 4.1: GPM-enabled and CPU-assisted). On a CPU, only
// the persistent index is measured; gphash-baselines has its peers there.
type rivals struct {
	*runner
	residence *deviceBatches // nil on a CPU
	rows      hostRows
	host      *runner // makes indexes that work on the host
	undo      []func() error
}

// rival is one of the compared indexes.
type rival struct {
	persistentPeer
	host bool // works on the host, for a program on a GPU
}

// gphashPeer is weft's index with its default hash.
var gphashPeer = persistentPeer{gphashName, true, func(r *runner, path string, keySize, n, batch int) (deviceMap, error) {
	return gphash.Create(path, r.Device, r.gphashOptions(keySize, n, batch))
}}

// newRivals allocates columns for batches of up to the given number of rows.
func (r *runner) newRivals(keySize, rows int) (v *rivals, err error) {
	v = &rivals{runner: r}
	if !r.onGPU() {
		return v, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.residence, err = r.newDeviceBatches(keySize, rows); err != nil {
		return v, err
	}
	v.undo = append(v.undo, v.residence.free)
	var unlock func() error
	v.rows, unlock, err = v.residence.newHostRows()
	v.undo = append(v.undo, unlock)
	if err != nil {
		return v, err
	}
	host, err := cpu.Open(nil)
	if err != nil {
		return v, err
	}
	v.undo = append(v.undo, host.Close)
	v.host = &runner{Config: r.Config}
	v.host.Device = host
	return v, nil
}

func (v *rivals) close() (err error) {
	for i := len(v.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, v.undo[i]())
	}
	return err
}

// rivalsOn returns all rivals for this kind of device. The first is weft's index.
func (r *runner) rivalsOn() []rival {
	if !r.onGPU() {
		return []rival{{gphashPeer, false}}
	}
	clevel, slab := persistentPeers[1], persistentPeers[2]
	return []rival{{gphashPeer, false}, {clevel, false}, {slab, false}, {gphashPeer, true}, {clevel, true}}
}

func (p *rival) label() string {
	if p.host {
		return p.name + onHost
	}
	return p.name
}

// measure creates an index in a new pool for n records and the given batch size, calls do with a
// session, and closes the index. index is nil unless the index is weft's.
func (v *rivals) measure(p rival, keySize, n, batch int, do func(s *session, index *gphash.Index) error) (err error) {
	on := v.runner
	if p.host {
		on = v.host
	}
	x, err := p.in(on, keySize, n, batch)
	if err != nil {
		return fmt.Errorf("%s: %w", p.label(), err)
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var table byteMap = x
	switch {
	case p.host:
		table = &assisted{byteMap: x, deviceBatches: v.residence, host: v.rows}
	case v.residence != nil:
		table = resident{x, v.residence, nil}
	}
	index, _ := x.(*gphash.Index)
	if err := do(newSession(v.runner, table, keySize, p.ordered), index); err != nil {
		return fmt.Errorf("%s: %w", p.label(), err)
	}
	return nil
}

// ---- deletes of batches in the memory of a GPU ----------------------------------------

func (m resident) Delete(ctx context.Context, keys []byte, deleted []bool) (n int, err error) {
	b, err := m.upload(ctx, len(deleted), nil, keys, nil)
	if err != nil {
		return 0, err
	}
	if m.last, err = m.time(ctx, func() error { return m.DeleteOn(m.stream, b.keys, b.ok) }); err != nil {
		return 0, err
	}
	err = errors.Join(m.Sync(ctx), b.ok.CopyTo(ctx, m.stream, deleted))
	return countTrue(deleted), err
}

func (m *assisted) Delete(ctx context.Context, keys []byte, deleted []bool) (n int, err error) {
	b, err := m.upload(ctx, len(deleted), nil, keys, nil)
	if err != nil {
		return 0, err
	}
	h := m.host.first(len(deleted))
	err = m.call(ctx, []transfer{{h.keys, b.keys.Ptr()}}, func() (err error) {
		n, err = m.byteMap.Delete(ctx, h.keys, h.ok)
		return err
	}, []transfer{{device.Bytes(h.ok), b.ok.Ptr()}})
	if err != nil {
		return 0, err
	}
	return n, b.ok.CopyTo(ctx, m.stream, deleted)
}

func countTrue(all []bool) (n int) {
	for _, yes := range all {
		if yes {
			n++
		}
	}
	return n
}

// peersDoc is a note on the peers, for the texts of experiments that have rivals.
const peersDoc = ` On a GPU batches lie in its memory, and so do results; the clock of the host runs until all is done. The peers of gphash-baselines do the
same there, each in a pool of its own mapped in the same way: Clevel hashing, a thread for each operation (clevel), and a slab hash with its undo log, a
warp for each. "host" is the index, and Clevel hashing, on all cores of the host, at work for the GPU: batches are copied to it, and results back, through
page-locked memory, which counts (the paper's CPU-assisted data management). The peers are made for all records and do not grow, which costs the paper's, hash
with a fast function, and do not keep the order of a batch.`
