package distinct

import "context"

// goIndex is an [Index] over a Go map.
type goIndex struct {
	m    map[uint64]uint32
	fail error // of all calls, if not nil
}

func newGoIndex() *goIndex { return &goIndex{m: make(map[uint64]uint32)} }

func (x *goIndex) Assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error) {
	if x.fail != nil {
		return nil, 0, x.fail
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	for i, k := range keys {
		n, had := x.m[k]
		if !had {
			n = uint32(len(x.m))
			x.m[k] = n
			first = append(first, uint32(i))
		}
		numbers[i] = n
	}
	return first, len(keys), nil
}

func (x *goIndex) Len() int { return len(x.m) }
