package groups

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// number is the constraint of keys and values.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func typeOf[T number]() Type {
	var zero T
	switch any(zero).(type) {
	case int8:
		return Int8
	case uint8:
		return Uint8
	case int16:
		return Int16
	case uint16:
		return Uint16
	case int32:
		return Int32
	case uint32:
		return Uint32
	case int64:
		return Int64
	case uint64:
		return Uint64
	case float32:
		return Float32
	}
	return Float64
}

// Keys and values of all types are grouped correctly, including those with all bits set.
func TestSmokeTypes(t *testing.T) { tryAllTypes(t, devicetest.OpenGPU(t)) }

func tryAllTypes(t testing.TB, dev device.Device) {
	tryTypes[int8, uint16](t, dev)
	tryTypes[uint16, int8](t, dev)
	tryTypes[int16, uint8](t, dev)
	tryTypes[uint8, int16](t, dev)
	tryTypes[int32, uint64](t, dev)
	tryTypes[uint32, float64](t, dev)
	tryTypes[int64, float32](t, dev)
	tryTypes[uint64, int32](t, dev)
	tryTypes[float32, uint32](t, dev)
	tryTypes[float64, int64](t, dev)
}

func tryTypes[K, V number](t testing.TB, dev device.Device) {
	value := typeOf[V]()
	sum, mean := SumOf, MeanOf
	if value >= Float32 {
		sum, mean = SumOfFloats, MeanOfFloats
	}
	tryAggregates[K, V](t, dev, Aggregate{Func: sum, Type: value})
	tryAggregates[K, V](t, dev, Aggregate{Func: mean, Type: value}, Aggregate{Func: MinOf, Type: value}, Aggregate{Func: MaxOf, Type: value})
}

// tryAggregates compares the aggregates of small values.
func tryAggregates[K, V number](t testing.TB, dev device.Device, aggs ...Aggregate) {
	name := fmt.Sprintf("%T, %T, %v", *new(K), *new(V), aggs)
	const n = 1500
	rng := rand.New(rand.NewPCG(7, 8))
	keys, values, of := make([]K, n), make([]V, n), map[K][]V{}
	for i := range keys {
		keys[i], values[i] = K(rng.IntN(120))-1, V(rng.IntN(120))
		of[keys[i]] = append(of[keys[i]], values[i])
	}
	table, err := New(dev, LayoutOf(oneKey(typeOf[K]()), aggs), small)
	must(t, err)
	defer table.Close()
	s := devicetest.NewStream(t, dev)
	must(t, table.Add(s, rowsOf(at(devicetest.Upload(t, s, keys)), at(devicetest.Upload(t, s, values)))))
	groups, err := table.Len(context.Background())
	must(t, err)
	got, words, extremes := devicetest.Upload(t, s, make([]K, groups)), make([]device.Slice[uint64], len(aggs)), make([]device.Slice[V], len(aggs))
	var outputs []Output
	for i, a := range aggs {
		words[i], extremes[i] = devicetest.Upload(t, s, make([]uint64, groups)), devicetest.Upload(t, s, make([]V, groups))
		o := Output{Aggregate: a, Column: words[i].Ptr()}
		if a.Func >= MinOf {
			o.Column = extremes[i].Ptr()
		}
		outputs = append(outputs, o)
	}
	must(t, s.Sync(context.Background()), table.Result(context.Background(), groups, Results{Keys: []KeyOutput{{Column: got.Ptr()}}, Outputs: outputs}))
	for i, a := range aggs {
		w, e := devicetest.Download(t, s, words[i]), devicetest.Download(t, s, extremes[i])
		for j, k := range devicetest.Download(t, s, got) {
			if have, want := told(a.Func, w[j], e[j]), wanted(a.Func, of[k]); have != want || groups != len(of) {
				t.Fatalf("%s: key %v of %d has %v as function %d, want %v of %d", name, k, groups, have, a.Func, want, len(of))
			}
		}
	}
}

// told returns a result as a float64: a word, or a value.
func told[V number](f Func, word uint64, v V) float64 {
	switch f {
	case SumOf:
		return float64(word)
	case MinOf, MaxOf:
		return float64(v)
	}
	return math.Float64frombits(word)
}

// wanted computes a function of values.
func wanted[V number](f Func, values []V) float64 {
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	switch f {
	case MinOf:
		return float64(slices.Min(values))
	case MaxOf:
		return float64(slices.Max(values))
	case MeanOf, MeanOfFloats:
		return sum / float64(len(values))
	}
	return sum
}
