package dst

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Mode selects a variant of a structure's kernels. O is the type of the structure's options.
type Mode[O any] struct {
	Arch    int
	Name    string // name of the options, for test names
	Options O
}

// String returns the mode as a part of a test name.
func (m Mode[O]) String() string { return fmt.Sprintf("sm_%d,%s", m.Arch, m.Name) }

// maintained is a structure with statistics, compaction and a check of its memory.
type maintained[S any] interface {
	Stats(ctx context.Context) (S, error)
	Compact(ctx context.Context) error
	CheckInvariants() error
}

// Maps returns a configuration for the maps that open makes. Between batches, programs compact the
// map and check its statistics. impossible reports whether statistics are implausible.
func Maps[M interface {
	OnMap[K, V]
	maintained[S]
}, K weft.Key, V weft.Value, S any](open func(dev device.Device, s Shape) (M, error), impossible func(S) bool) Config[K, V] {
	return Config[K, V]{Upkeep: upkeep[K, V](impossible), New: func(dev device.Device, s Shape) (Subject[K, V], error) {
		m, err := open(dev, s)
		return subject[K, V, S]{Map(m), m}, err
	}}
}

// Sets returns a configuration for the sets that open makes. See [Maps].
func Sets[T interface {
	OnSet[K]
	maintained[S]
}, K weft.Key, S any](open func(dev device.Device, s Shape) (T, error), impossible func(S) bool) Config[K, uint32] {
	return Config[K, uint32]{Uniform: true, Upkeep: upkeep[K, uint32](impossible), New: func(dev device.Device, s Shape) (Subject[K, uint32], error) {
		m, err := open(dev, s)
		return subject[K, uint32, S]{Set(m), m}, err
	}}
}

// subject is a HostSubject together with its structure.
type subject[K weft.Key, V weft.Value, S any] struct {
	HostSubject[K, V]
	impl maintained[S]
}

func (s subject[K, V, S]) CheckInvariants() error { return s.impl.CheckInvariants() }

func (s subject[K, V, S]) structure() any { return s.impl }

func upkeep[K weft.Key, V weft.Value, S any](impossible func(S) bool) []Upkeep[K, V] {
	of := func(x Subject[K, V]) maintained[S] { return x.(subject[K, V, S]).impl }
	return []Upkeep[K, V]{
		{Name: "Stats", Do: func(x Subject[K, V]) error {
			s, err := of(x).Stats(context.Background())
			if err == nil && impossible(s) {
				err = fmt.Errorf("no table has these settings: %v", s)
			}
			return err
		}},
		{Name: "Compact", Do: func(x Subject[K, V]) error { return of(x).Compact(context.Background()) }},
	}
}
