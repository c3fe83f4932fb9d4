package cpu

import "github.com/weftgo/weft/internal/op"

// ApplyOps runs all operations on one key in order. val and found describe the key's value before
// the operations, and the results describe it after them.
func ApplyOps[K Key, V uint32 | uint64](c *Changes[K, V], items []Item[K], val V, found bool) (V, bool) {
	slot := Slot[K, V]{Val: val}
	for _, item := range items {
		kind := c.Kind(item.Row)
		var o Outcome
		switch {
		case kind == op.Update:
			if o.OK = found && c.Updates; o.OK {
				SetValue(c, item.Row, &slot)
			}
		case found:
			o = ApplyPresent(c, item.Row, kind, &slot)
			found = o.Removed == 0
		case kind.Inserts():
			o = Insert(c, item.Row, item.Key, &slot)
			found = true
		}
		c.WriteOutcome(item.Row, o)
	}
	return slot.Val, found
}
