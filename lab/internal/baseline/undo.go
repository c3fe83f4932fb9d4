package baseline

import "github.com/weftgo/weft/internal/pm"

// undo is the log of a thread: how many words it has, and then for each its address and what
// it was. They are durable before they count, and count before anything is changed; what was
// changed is durable before they do not count any more. So there are four fences to an
// operation.
type undo struct {
	mem *pm.Memory
	at  uint64
	n   uint64
	off bool
}

// save logs some words that are about to change.
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

// seal makes the log count. From here on the words may be changed.
func (u *undo) seal() {
	if u.off {
		return
	}
	u.mem.Fence()
	u.mem.Store(u.at, u.n)
	u.mem.Fence()
}

// commit makes the change durable and forgets the log.
func (u *undo) commit() {
	u.mem.Fence()
	if !u.off {
		u.forget()
	}
}

// forget makes the log not count any more.
func (u *undo) forget() {
	u.n = 0
	u.mem.Store(u.at, 0)
	u.mem.Fence()
}

// rollback takes back what the log has, if it counts. Cut short it does the same again.
func (u *undo) rollback() {
	for n := u.mem.Load(u.at); n > 0; n-- {
		entry := u.at + 1 + 2*(n-1)
		u.mem.Store(u.mem.Load(entry), u.mem.Load(entry+1))
	}
}
