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
	many = flag.Int("sim.mutants", 0, "random mutants of kernels to judge per test; 0: the test's own number")
	seed = flag.Uint64("sim.mutant", 0, "seed of the order in which mutants are judged")
	from = flag.Int("sim.mutant.from", 0, "number of the first mutant in that order")
	only = flag.String("sim.mutant.name", "", "the one mutant to judge")
	file = flag.String("sim.mutant.log", "", "file to note verdicts in, as lines of JSON; those that are there are taken as they are")
)

// Config specifies the structure with the kernels to break.
type Config struct {
	// Images are the images of the structure; see [Of].
	Images []*device.Image
	// Number is the number of mutants to judge, unless the flag sets it. If both are 0, the test is
	// skipped.
	Number int
	// Trials returns the trials of a mutant, keyed by image name, quick ones first.
	Trials map[string]func(m *Mutant) []Trial
	// Reasons is the table of reasons why mutants survive.
	Reasons string
}

// Run judges random mutants and reports on them. With flags, it probes survivors, and those without
// a reason fail the test. Otherwise Run judges mutants without a reason to survive: a survivor
// costs all trials, and an expected one gives no information. A third of them may survive. Each
// change of the kernels changes the selection, and many changes make no difference.
func Run(t *testing.T, cfg Config) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	reasons, err := ParseReasons(cfg.Reasons)
	if err != nil {
		t.Fatal(err)
	}
	asked, n := *many > 0 || *only != "", cfg.Number
	if n == 0 && !asked {
		t.Skip("-sim.mutants says how many")
	}
	all := Of(cfg.Images, *seed)
	made := len(all)
	for _, img := range cfg.Images {
		if !slices.ContainsFunc(all, func(m *Mutant) bool { return m.Image == img.String() }) {
			t.Fatalf("image %v has no kernels to break", img)
		}
	}
	if *many > 0 {
		n = *many
	}
	if !asked {
		all = unexcused(all, reasons, *from+n)
	}
	some := all[min(*from, len(all)):min(*from+n, len(all))]
	if *only != "" {
		i := slices.IndexFunc(all, func(m *Mutant) bool { return m.Name() == *only })
		if i < 0 {
			t.Fatalf("no mutant %s", *only)
		}
		some = all[i : i+1]
	}
	verdicts := judgeAll(t, cfg, some, asked)
	r := newReport(verdicts, reasons, asked)
	t.Logf("%d of %d mutants of %s\n%s", len(some), made, cfg.Images[0].Name, r)
	if n := len(r.unexplained); n > 0 && asked || 3*n > len(some) {
		t.Errorf("%d mutants survive without a reason", n)
	}
}

// unexcused returns the first n mutants without a reason to survive.
func unexcused(all []*Mutant, reasons Reasons, n int) (first []*Mutant) {
	for _, m := range all {
		if len(first) == n {
			break
		}
		if reasons.of(&Verdict{Mutant: m.Name(), Context: m.Context}, false) == nil {
			first = append(first, m)
		}
	}
	return first
}

// judgeAll judges mutants on all cores, except those with a verdict in the log.
func judgeAll(t *testing.T, cfg Config, some []*Mutant, probe bool) []*Verdict {
	known, note, err := open(*file)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := make([]*Verdict, len(some))
	var fair controls
	var work sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := range next {
				m := some[i]
				trials := cfg.Trials[m.Image](m)
				v := m.judge(t, trials, probe)
				if probe && v.Outcome == Killed {
					fair.check(t, m, trials, v.By)
				}
				if err := note(v); err != nil {
					t.Error(err)
				}
				if *only != "" {
					t.Logf("%+v", *v)
				}
				verdicts[i] = v
			}
		})
	}
	for i, m := range some {
		if v := known[m.Name()]; v != nil && v.Was == m.Was && v.Now == m.Now {
			verdicts[i] = v
		} else {
			next <- i
		}
	}
	close(next)
	work.Wait()
	return verdicts
}

// controls check that the trials which kill mutants pass without them.
type controls struct {
	mu   sync.Mutex
	done map[control]*sync.Once
}

// A control is a trial of the original kernels of one image.
type control struct{ trial, file string }

func (c *controls) check(t *testing.T, m *Mutant, trials []Trial, by string) {
	x := trials[slices.IndexFunc(trials, func(x Trial) bool { return x.Name == by })]
	as := control{by, m.file()}
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
		if how := x.judge(t, m.rewrite(m.Was), patience); how != "" {
			t.Errorf("%s fails without a mutant: %s", by, how)
		}
	})
}

// open reads a log, if it exists, and returns a function that appends verdicts to it.
func open(name string) (known map[string]*Verdict, note func(*Verdict) error, err error) {
	if name == "" {
		return nil, func(*Verdict) error { return nil }, nil
	}
	known = map[string]*Verdict{}
	text, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	default:
		for lines := bufio.NewScanner(text); lines.Scan(); {
			v := new(Verdict)
			if json.Unmarshal(lines.Bytes(), v) == nil { // the last line may be truncated
				known[v.Mutant] = v
			}
		}
		text.Close()
	}
	var mu sync.Mutex
	return known, func(v *Verdict) error {
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
