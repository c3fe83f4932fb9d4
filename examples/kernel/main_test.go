package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
)

func Example() {
	main()
	// Output: 4 [750 1999 750] [true true true]
}

// many returns sales of few customers, so that lanes collide in each campaign.
func many() (sales, campaigns) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s sales
	var c campaigns
	for range 80 {
		s.customer, s.cents = append(s.customer, rng.Int64N(12)-1), append(s.cents, rng.Int64N(1000))
	}
	for range 40 {
		c.customer, c.campaign = append(c.customer, rng.Int64N(12)-1), append(c.campaign, rng.Uint32N(6))
	}
	return s, c
}

// wrong runs a kernel and returns an error if the totals are wrong.
func wrong(t *testing.T, dev device.Device, image *device.Image, kernel string) error {
	t.Helper()
	s, c := many()
	db, err := open(t.Context(), dev, c)
	if err != nil {
		return err
	}
	defer db.close()
	if err := db.load(image, kernel); err != nil {
		return err
	}
	counted, err := db.total(t.Context(), s, 300)
	if err != nil {
		return err
	}
	want, number := map[uint32]int64{}, uint64(0)
	for i, cents := range s.cents {
		if cents < 300 {
			continue
		}
		number++
		for j, customer := range c.customer {
			if customer == s.customer[i] {
				want[c.campaign[j]] += cents
			}
		}
	}
	if counted != number {
		return fmt.Errorf("%d sales, want %d", counted, number)
	}
	got := map[uint32]int64{}
	for id, cents := range db.totals.All() {
		got[id] = cents
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("totals are %v, want %v", got, want)
	}
	return db.totals.Check(t.Context())
}

func onCPU(t *testing.T) device.Device {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func TestBatches(t *testing.T) {
	if err := wrong(t, onCPU(t), &kernelImage, "kernel_total"); err != nil {
		t.Error(err)
	}
}

// schedules runs a kernel under the schedules of a number of seeds, and returns the number of
// failures.
func schedules(t *testing.T, image *device.Image, kernel string, seeds uint64) (failed int, last error) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range seeds {
		dev, err := sim.Open(sim.Schedule(seed))
		if err != nil {
			t.Fatal(err)
		}
		if err := wrong(t, dev, image, kernel); err != nil {
			failed, last = failed+1, fmt.Errorf("seed %d: %w", seed, err)
		}
		dev.Close()
	}
	return failed, last
}

// The kernels are correct under any schedule of their lanes.
func TestSchedules(t *testing.T) {
	for _, kernel := range []string{"kernel_total", "kernel_total_warp"} {
		if _, err := schedules(t, &kernelImage, kernel, 40); err != nil {
			t.Errorf("%s: %v", kernel, err)
		}
	}
}

// Their first drafts are not.
func TestRacesAreFound(t *testing.T) {
	for _, kernel := range []string{"draft_total", "draft_count"} {
		failed, err := schedules(t, &draftImage, kernel, 10)
		t.Logf("%s fails under %d of 10 schedules: %v", kernel, failed, err)
		if failed == 0 {
			t.Errorf("%s: no schedule shows the race", kernel)
		}
	}
}
