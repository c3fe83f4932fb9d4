package mutate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftgo/weft/device"
)

// Mutant is an image with one change of one statement of a kernel.
type Mutant struct {
	Image  string // for example "linear_32_32"
	Arch   int    // for example 90
	Kernel string // name without the structure's name: "get_32_32"
	Line   int    // line of the kernel, from 1
	Kind   string // kind of the change, for example "compare"
	Detail string // for example "lt-ge"
	Was    string // the original statement
	Now    string // the changed statement; "" if it is removed
	// Context is the statement between its neighbors, without the numbers of registers and labels:
	// "add.s64 %rd, %rd, 8; <ret>; ".
	Context string

	copy       int // number of earlier mutants that have the same name without this number
	diffTrap   string
	ptx        string
	start, end int // place of the statement in ptx

	round int    // number of earlier mutants with the same kernel and kind
	order uint64 // random order within the round
}

// Name returns a name that is unique among the mutants of a structure.
func (m *Mutant) Name() string {
	s := fmt.Sprintf("sm%d:%s:%d:%s:%s", m.Arch, m.Kernel, m.Line, m.Kind, m.Detail)
	if m.copy > 0 {
		s += fmt.Sprintf("#%d", m.copy+1)
	}
	return s
}

// Mutants returns all mutants of a structure's images, in an order that depends on the seed. First
// comes one mutant of each kind in each kernel, then another one of each, and so on. Any prefix is
// thus spread over all kernels and kinds. The first image has the name of the structure, which is
// removed from the start of the kernels' names.
func Mutants(images []*device.Image, seed uint64) []*Mutant {
	var all []*Mutant
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, img := range images {
		for _, target := range img.Targets {
			kernels := parseKernels(target.PTX, img.Name, images[0].Name)
			for i := range kernels {
				cells := map[string][]*Mutant{}
				for _, m := range kernels[i].mutants() {
					m.Image, m.Arch, m.ptx = img.String(), target.Arch, target.PTX
					m.Was = m.ptx[m.start:m.end]
					cells[m.Kind] = append(cells[m.Kind], m)
				}
				for _, kind := range kinds { // a fixed order, unlike that of the map
					cell := cells[kind.name]
					rng.Shuffle(len(cell), func(i, j int) { cell[i], cell[j] = cell[j], cell[i] })
					for round, m := range cell {
						m.round, m.order = round, rng.Uint64()
					}
					all = append(all, cell...)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *Mutant) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.order, b.order))
	})
	return all
}

// mutants returns all mutants of a kernel, except those that change a value that is never read.
func (k *kernel) mutants() (all []*Mutant) {
	reads, names := k.reads(), map[string]int{}
	for i := range k.body {
		s := &k.body[i]
		if slices.Contains(pure, s.name()) && typeOf(s.args[0]) != "" && reads[s.args[0]] == 0 {
			continue
		}
		if s.name() == "bra" && k.labels[s.args[0]] == i+1 {
			continue // the branch leads to the next statement anyway
		}
		for _, c := range s.changes() {
			m := &Mutant{
				Kernel: k.name, Line: s.line, Kind: c.kind, Detail: c.detail, Now: c.text, Context: k.context(i),
				diffTrap: c.diffTrap, start: s.start, end: s.end,
			}
			name := m.Name()
			m.copy = names[name]
			names[name]++
			all = append(all, m)
		}
	}
	return all
}

// context returns statement i between its neighbors.
func (k *kernel) context(i int) string {
	text := func(i int) string {
		if i < 0 || i >= len(k.body) {
			return ""
		}
		s := &k.body[i]
		return stripNumbers(strings.ReplaceAll(s.with(s.op, s.args), k.params, "params"))
	}
	return fmt.Sprintf("%s; <%s>; %s", text(i-1), text(i), text(i+1))
}

// stripNumbers removes the numbers of registers and labels, which differ between kernels.
func stripNumbers(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		b.WriteByte(c)
		i++
		switch {
		case c == '%':
			for i < len(text) && text[i] >= 'a' && text[i] <= 'z' {
				b.WriteByte(text[i])
				i++
			}
			for i < len(text) && text[i] >= '0' && text[i] <= '9' {
				i++
			}
		case c == '$':
			b.WriteByte('L')
			for i < len(text) && (text[i] == '_' || text[i] >= '0' && text[i] <= '9' || text[i] >= 'A' && text[i] <= 'Z') {
				i++
			}
		}
	}
	return b.String()
}

// file returns the name of the PTX on a simulated GPU.
func (m *Mutant) file() string { return fmt.Sprintf("%s_sm%d.ptx", m.Image, m.Arch) }

// rewrite returns a function that replaces the statement by text, as in [sim.Options].
func (m *Mutant) rewrite(text string) func(file, ptx string) string {
	return func(file, ptx string) string {
		if file != m.file() {
			return ptx
		}
		return m.ptx[:m.start] + text + m.ptx[m.end:]
	}
}
