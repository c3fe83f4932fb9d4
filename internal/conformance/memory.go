package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Slots decodes slots of some widths from bytes. It shares no code with the engines.
type Slots struct{ batch.Widths }

// KeyBits returns the width of stored keys.
func (s Slots) KeyBits() int {
	if s.Val == 0 {
		return s.Slot * 8
	}
	return s.Slot * 4
}

// Sentinel returns sentinel n as a key: 0 empty, 1 dead, 2 pending, then those of a structure.
func (s Slots) Sentinel(n uint64) uint64 { return ^n << (64 - s.KeyBits()) >> (64 - s.KeyBits()) }

// In returns the key and the value in slot i of a memory.
func (s Slots) In(mem []byte, i int) (key, val uint64) {
	b := mem[i*s.Slot:]
	switch {
	case s.Slot == 4:
		return uint64(binary.LittleEndian.Uint32(b)), 0
	case s.Slot == 8 && s.Val == 0:
		return binary.LittleEndian.Uint64(b), 0
	case s.Slot == 8:
		return uint64(binary.LittleEndian.Uint32(b[4:])), uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)
}

// Memory is the memory of a table of [core.Lines], for tests of a structure's layout.
type Memory struct {
	Slots
	Mem []byte
}

// ReadMemory copies the memory in use to the host while no change runs.
func ReadMemory(t *core.Table) (parts core.Parts, m Memory, err error) {
	lease, err := t.Leases.Read(ctx(), nil)
	if err != nil {
		return nil, m, err
	}
	buf := lease.Parts.(interface{ Memory() *core.Lines }).Memory().Buf
	m = Memory{Slots{t.Widths}, make([]byte, buf.Size)}
	_, err = t.Engine.ReadCounters(ctx()) // waits for changes
	s, e := t.Device.NewStream()
	if err = errors.Join(err, e); err == nil {
		err = errors.Join(s.CopyOut(context.Background(), m.Mem, buf.Ptr), s.Close())
	}
	return lease.Parts, m, errors.Join(err, lease.End())
}

// CheckMemory returns the error of check for the memory in use, unless the table is closed.
func CheckMemory(t *core.Table, check func(core.Parts, Memory) error) error {
	parts, m, err := ReadMemory(t)
	switch {
	case errors.Is(err, weft.ErrClosed):
		return nil
	case err != nil:
		return err
	}
	return check(parts, m)
}

// CheckCounters requires the counters to equal the numbers of live and used slots.
func (m Memory) CheckCounters(live, used uint64) error {
	last := m.Mem[len(m.Mem)-core.LineBytes:]
	if l, u := binary.LittleEndian.Uint64(last), binary.LittleEndian.Uint64(last[8:]); l != live || u != used {
		return fmt.Errorf("the counters say %d live of %d used slots; there are %d of %d", l, u, live, used)
	}
	return nil
}
