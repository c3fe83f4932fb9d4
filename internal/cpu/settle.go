package cpu

import "github.com/weftgo/weft/internal/op"

// Settle runs the operations on one key in their order. val and found are the key's value before,
// and the results are its value after.
func Settle[K Key, V uint32 | uint64](c *Changes[K, V], items []Item[K], val V, found bool) (V, bool) {
	slot := Slot[K, V]{Val: val}
	for _, it := range items {
		kind := c.Kind(it.Row)
		var o Outcome
		switch {
		case kind == op.Update:
			if o.OK = found && c.Updates; o.OK {
				Set(c, it.Row, &slot)
			}
		case found:
			o = Present(c, it.Row, kind, &slot)
			found = o.Removed == 0
		case kind.Inserts():
			o = Insert(c, it.Row, it.Key, &slot)
			found = true
		}
		c.Finish(it.Row, o)
	}
	return slot.Val, found
}
