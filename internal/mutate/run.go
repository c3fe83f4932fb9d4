package mutate

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
)

var (
	nMutants = flag.Int("sim.mutants", 0, "random mutants of kernels to judge per test; 0: the test's own number")
	seed     = flag.Uint64("sim.mutant", 0, "seed of the order in which mutants are judged")
	from     = flag.Int("sim.mutant.from", 0, "number of the first mutant in that order")
	onlyName = flag.String("sim.mutant.name", "", "the one mutant to judge")
	logFile  = flag.String("sim.mutant.log", "", "file to note verdicts in, as lines of JSON; those that are there are taken as they are")
)

// Config describes the structure with the kernels to break.
type Config struct {
	// Images are the images of the structure; see [Mutants].
	Images []*device.Image
	// Number is the number of mutants to judge, unless -sim.mutants sets it. If both are 0, the
	// test is skipped.
	Number int
	// Trials returns the trials of a mutant, by name of its image. Quick trials come first.
	Trials map[string]func(m *Mutant) []Trial
	// Reasons is the table of reasons why mutants survive; see [ParseReasons].
	Reasons string
}

// Run judges random mutants and logs a report. If a flag selects the mutants, Run probes survivors,
// and survivors without a reason fail the test. Otherwise Run judges only mutants without a reason
// to survive, because a survivor costs all trials and an expected one gives no information. In this
// case a third of the mutants may survive: each change of the kernels changes the selection, and
// many changes make no difference.
func Run(t *testing.T, cfg Config) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	reasons, err := ParseReasons(cfg.Reasons)
	if err != nil {
		t.Fatal(err)
	}
	fromFlags, n := *nMutants > 0 || *onlyName != "", cfg.Number
	if n == 0 && !fromFlags {
		t.Skip("-sim.mutants says how many")
	}
	all := Mutants(cfg.Images, *seed)
	nTotal := len(all)
	for _, img := range cfg.Images {
		if !slices.ContainsFunc(all, func(m *Mutant) bool { return m.Image == img.String() }) {
			t.Fatalf("image %v has no kernels to break", img)
		}
	}
	if *nMutants > 0 {
		n = *nMutants
	}
	if !fromFlags {
		all = withoutReason(all, reasons, *from+n)
	}
	selected := all[min(*from, len(all)):min(*from+n, len(all))]
	if *onlyName != "" {
		i := slices.IndexFunc(all, func(m *Mutant) bool { return m.Name() == *onlyName })
		if i < 0 {
			t.Fatalf("no mutant %s", *onlyName)
		}
		selected = all[i : i+1]
	}
	verdicts := judgeAll(t, cfg, selected, fromFlags)
	r := newReport(verdicts, reasons, fromFlags)
	t.Logf("%d of %d mutants of %s\n%s", len(selected), nTotal, cfg.Images[0].Name, r)
	if n := len(r.unexplained); n > 0 && fromFlags || 3*n > len(selected) {
		t.Errorf("%d mutants survive without a reason", n)
	}
}

// withoutReason returns the first n mutants that have no reason to survive.
func withoutReason(all []*Mutant, reasons Reasons, n int) (first []*Mutant) {
	for _, m := range all {
		if len(first) == n {
			break
		}
		if reasons.find(&Verdict{Mutant: m.Name(), Context: m.Context}, false) == nil {
			first = append(first, m)
		}
	}
	return first
}

// judgeAll judges mutants on all cores, except those that have a verdict in the log.
func judgeAll(t *testing.T, cfg Config, selected []*Mutant, probe bool) []*Verdict {
	logged, note, err := openLog(*logFile)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := make([]*Verdict, len(selected))
	var ctl controls
	var work sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := range next {
				m := selected[i]
				trials := cfg.Trials[m.Image](m)
				v := m.judge(t, trials, probe)
				if probe && v.Outcome == Killed {
					ctl.check(t, m, trials, v.By)
				}
				if err := note(v); err != nil {
					t.Error(err)
				}
				if *onlyName != "" {
					t.Logf("%+v", *v)
				}
				verdicts[i] = v
			}
		})
	}
	for i, m := range selected {
		if v := logged[m.Name()]; v != nil && v.Was == m.Was && v.Now == m.Now {
			verdicts[i] = v
		} else {
			next <- i
		}
	}
	close(next)
	work.Wait()
	return verdicts
}

// controls check that trials that kill mutants pass on the original kernels.
type controls struct {
	mu   sync.Mutex
	done map[control]*sync.Once
}

// control identifies a trial on the original kernels of one image.
type control struct{ trial, file string }

func (c *controls) check(t *testing.T, m *Mutant, trials []Trial, trial string) {
	x := trials[slices.IndexFunc(trials, func(x Trial) bool { return x.Name == trial })]
	as := control{trial, m.file()}
	c.mu.Lock()
	if c.done == nil {
		c.done = map[control]*sync.Once{}
	}
	once := c.done[as]
	if once == nil {
		once = new(sync.Once)
		c.done[as] = once
	}
	c.mu.Unlock()
	once.Do(func() {
		if failure := x.judge(t, m.rewrite(m.Was), trialTimeout); failure != "" {
			t.Errorf("%s fails without a mutant: %s", trial, failure)
		}
	})
}

// openLog reads the log, if it exists. note appends a verdict to the log.
func openLog(name string) (logged map[string]*Verdict, note func(*Verdict) error, err error) {
	if name == "" {
		return nil, func(*Verdict) error { return nil }, nil
	}
	logged = map[string]*Verdict{}
	text, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	default:
		for lines := bufio.NewScanner(text); lines.Scan(); {
			v := new(Verdict)
			if json.Unmarshal(lines.Bytes(), v) == nil { // the last line may be truncated
				logged[v.Mutant] = v
			}
		}
		text.Close()
	}
	var mu sync.Mutex
	return logged, func(v *Verdict) error {
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(append(line, '\n'))
		return errors.Join(err, f.Close())
	}, nil
}
