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

// Slots decodes the slots in a table's memory. It shares no code with the engines.
type Slots struct{ batch.Widths }

// KeyBits returns the number of bits of a stored key.
func (s Slots) KeyBits() int {
	if s.Val == 0 {
		return s.Slot * 8
	}
	return s.Slot * 4
}

// Sentinel returns sentinel number n as a key: 0 empty, 1 dead, 2 pending, then the structure's own
// sentinels.
func (s Slots) Sentinel(n uint64) uint64 { return ^n << (64 - s.KeyBits()) >> (64 - s.KeyBits()) }

// In returns the key and the value in slot i of mem.
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

// Memory is a copy of a table's [core.Lines], for tests of the layout.
type Memory struct {
	Slots
	Mem []byte
}

// ReadMemory returns the current generation and a copy of its memory. No change may run meanwhile.
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

// CheckMemory passes the current generation and a copy of its memory to check, and returns the
// error of check. It returns nil if the table is closed.
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

// CheckCounters returns an error unless the counters equal the numbers of live and used slots.
func (m Memory) CheckCounters(live, used uint64) error {
	last := m.Mem[len(m.Mem)-core.LineBytes:]
	if l, u := binary.LittleEndian.Uint64(last), binary.LittleEndian.Uint64(last[8:]); l != live || u != used {
		return fmt.Errorf("the counters say %d live of %d used slots; there are %d of %d", l, u, live, used)
	}
	return nil
}
