package core

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sizes returns table sizes: all small ones and some large ones. Among the large ones are sizes
// that share divisors with the integers near their golden section.
func sizes() []uint32 {
	var ns []uint32
	for n := range uint32(300) {
		ns = append(ns, n+1)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for bits := 9; bits <= 17; bits++ {
		ns = append(ns, 1<<bits-1, 1<<bits, 1<<bits+1, 3<<(bits-1), 1<<bits+rng.Uint32N(1<<bits))
	}
	return ns
}

// Each place must occur once, and Next must agree with At.
func TestWeylOrderVisitsEachPlaceOnce(t *testing.T) {
	for _, n := range sizes() {
		s := NewWeylOrder(n)
		seen := make([]bool, n)
		place := s.At(0)
		for i := range n {
			if at := s.At(i); at != place {
				t.Fatalf("n %d: At(%d) is %d, Next says %d", n, i, at, place)
			}
			if seen[place] {
				t.Fatalf("n %d: place %d comes twice", n, place)
			}
			seen[place] = true
			place = s.Next(place)
		}
		if place != s.At(0) {
			t.Fatalf("n %d: behind the last place comes %d", n, place)
		}
	}
	// sizes at which 32-bit arithmetic might overflow
	for _, n := range []uint32{1<<30 - 2, 1<<31 - 1} {
		s := NewWeylOrder(n)
		if last := s.At(n - 1); s.Next(last) != 0 || uint64(last)+uint64(s.Step()) != uint64(n) {
			t.Errorf("n %d: the last place is %d, step %d", n, last, s.Step())
		}
	}
}

// The places of any run must be spread evenly: no gap between neighbors may exceed five times the
// mean. With n random places, the widest gap is about log n times the mean.
func TestSpreadIsEven(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range sizes() {
		s := NewWeylOrder(n)
		for range 5 {
			length := 1 + rng.Uint32N(n)
			first := rng.Uint32N(n - length + 1)
			var run []uint32
			for i := range length {
				run = append(run, s.At(first+i))
			}
			slices.Sort(run)
			widest := run[0] + n - run[length-1]
			for i := range run[1:] {
				widest = max(widest, run[i+1]-run[i])
			}
			if mean := float64(n) / float64(length); float64(widest) > 5*mean {
				t.Fatalf("n %d, step %d: a gap of %d between the places %d to %d, whose mean distance is %.1f",
					n, s.Step(), widest, first, first+length, mean)
			}
		}
	}
}
