package cuckoo_test

import (
	_ "embed"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

//go:embed testdata/survivors.txt
var survivors string

// Most random changes of the kernels are noticed. They are judged only with -sim.mutants, since
// each takes seconds and linear has the same paths and lists.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: cuckoo.Images, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		"cuckoo_32_32": mapTrials[uint32, uint32],
		"cuckoo_32_64": mapTrials[uint32, uint64],
		"cuckoo_64_32": mapTrials[uint64, uint32],
		"cuckoo_64_64": mapTrials[uint64, uint64],
		"cuckoo_32_0":  setTrials[uint32],
		"cuckoo_64_0":  setTrials[uint64],
	}})
}

func mapTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return mutate.ModeTrials(m, modes, schedules[K, V], func(t testing.TB, dev device.Device, m mode) { smoke[K, V](t, dev, options(m, dst.Shape{})) })
}

func setTrials[K uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return mutate.ModeTrials(m, modes, setSchedules[K], func(t testing.TB, dev device.Device, m mode) { smokeSet[K](t, dev, options(m, dst.Shape{})) })
}
