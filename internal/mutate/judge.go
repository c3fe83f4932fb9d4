package mutate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// Outcome is the kind of a [Verdict].
type Outcome string

// These are the outcomes. A mutant survives in the last three.
const (
	Killed    Outcome = "killed"
	Unloaded  Outcome = "not loaded" // device/sim cannot load the PTX
	Unreached Outcome = "unreached"  // no trial executes the statement
	SameValue Outcome = "alike"      // the changed value equals the original one in all trials
	Survived  Outcome = "survived"
)

// Verdict is the result of judging a mutant.
type Verdict struct {
	Mutant  string
	Was     string
	Now     string
	Context string
	Outcome Outcome
	By      string  // trial that killed the mutant
	How     string  // failure of that trial
	Seconds float64 // duration of all trials
}

// survived reports whether no trial detected the mutant.
func (v *Verdict) survived() bool { return v.Outcome != Killed && v.Outcome != Unloaded }

// judge runs trials on a mutant. If probe is set, it also probes a survivor.
func (m *Mutant) judge(t testing.TB, trials []Trial, probe bool) *Verdict {
	v := &Verdict{Mutant: m.Name(), Was: m.Was, Now: m.Now, Context: m.Context}
	start := time.Now()
	defer func() { v.Seconds = time.Since(start).Seconds() }()
	trial, failure, err := m.runTrials(t, m.Now, trials)
	switch {
	case err != nil:
		v.Outcome, v.How = Unloaded, err.Error()
		return v
	case trial != "":
		v.Outcome, v.By, v.How = Killed, trial, failure
		return v
	}
	v.Outcome = Survived
	if probe {
		v.Outcome = m.probeSurvivor(t, trials)
	}
	return v
}

// probeSurvivor determines whether trials that a mutant survives execute its statement, and whether
// the changed statement ever has another result.
func (m *Mutant) probeSurvivor(t testing.TB, trials []Trial) Outcome {
	for _, probe := range []struct {
		text    string
		outcome Outcome // outcome if no trial fails
	}{{"trap", Unreached}, {m.diffTrap, SameValue}} {
		if probe.text == "" {
			continue
		}
		trial, _, err := m.runTrials(t, probe.text, trials)
		if err != nil {
			t.Errorf("%s: %s does not load: %v", m.Name(), probe.text, err)
		} else if trial == "" {
			return probe.outcome
		}
	}
	return Survived
}

// runTrials runs trials on PTX that has text in place of the mutant's statement.
func (m *Mutant) runTrials(t testing.TB, text string, trials []Trial) (trial, failure string, err error) {
	rewrite := m.rewrite(text)
	if err := m.load(rewrite(m.file(), m.ptx)); err != nil {
		return "", "", err
	}
	trial, failure = FirstFailure(t, trials, rewrite)
	return trial, failure, nil
}

// FirstFailure runs trials until one fails. rewrite changes the kernels, as in [sim.Options].
// FirstFailure returns the name of the failed trial and the first line of the failure, or "" if all
// pass.
func FirstFailure(t testing.TB, trials []Trial, rewrite func(file, ptx string) string) (trial, failure string) {
	for i := range trials {
		if failure := trials[i].judge(t, rewrite, trialTimeout); failure != "" {
			failure, _, _ = strings.Cut(failure, "\n")
			return trials[i].Name, failure
		}
	}
	return "", ""
}

// load returns an error if a simulated GPU cannot load the PTX.
func (m *Mutant) load(ptx string) error {
	dev, err := sim.Open(&sim.Options{Arch: m.Arch})
	if err != nil {
		return err
	}
	_, err = dev.Load(&device.Image{Name: m.Image, Targets: []device.Target{{Arch: m.Arch, PTX: ptx}}})
	return errors.Join(err, dev.Close())
}
