package baseline

import "github.com/weftgo/weft/internal/pm"

// undo is the log of a thread: the number of logged words, and then the address and the old content
// of each word. An operation has four fences. The entries are durable before the log becomes valid,
// and the log is valid before anything changes. The changes are durable before the log becomes
// invalid.
type undo struct {
	mem *pm.Memory
	at  uint64
	n   uint64
	off bool
}

// save logs n words that are about to change.
func (u *undo) save(word, n uint64) {
	if u.off {
		return
	}
	for i := range n {
		entry := u.at + 1 + 2*u.n
		u.mem.Store(entry, word+i)
		u.mem.Store(entry+1, u.mem.Load(word+i))
		u.n++
	}
}

// validate makes the log valid. The logged words may change afterwards.
func (u *undo) validate() {
	if u.off {
		return
	}
	u.mem.Fence()
	u.mem.Store(u.at, u.n)
	u.mem.Fence()
}

// commit makes the change durable and invalidates the log.
func (u *undo) commit() {
	u.mem.Fence()
	if !u.off {
		u.discard()
	}
}

func (u *undo) discard() {
	u.n = 0
	u.mem.Store(u.at, 0)
	u.mem.Fence()
}

// rollback restores the logged words if the log is valid. If rollback is interrupted, it can be
// repeated.
func (u *undo) rollback() {
	for n := u.mem.Load(u.at); n > 0; n-- {
		entry := u.at + 1 + 2*(n-1)
		u.mem.Store(u.mem.Load(entry), u.mem.Load(entry+1))
	}
}
