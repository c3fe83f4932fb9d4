package mutate

import "strings"

// statement is one instruction of a kernel, as clang writes it. It has its own line, or is one of
// several in a line of inline assembly.
type statement struct {
	line       int // line of the kernel, from 1
	start, end int // place of its text in the file, without the semicolon
	guard      string
	op         string   // opcode with modifiers: "ld.global.u32"
	args       []string // operands as written
}

// parts returns the opcode and its modifiers.
func (s *statement) parts() []string { return strings.Split(s.op, ".") }

// name returns the opcode without modifiers.
func (s *statement) name() string {
	name, _, _ := strings.Cut(s.op, ".")
	return name
}

// with returns the statement with another opcode and other operands, and with its guard.
func (s *statement) with(op string, args []string) string {
	text := op
	if len(args) > 0 {
		text += " " + strings.Join(args, ", ")
	}
	return s.addGuard(text)
}

// addGuard adds the guard of the statement to an instruction.
func (s *statement) addGuard(text string) string {
	if s.guard == "" {
		return text
	}
	return s.guard + " " + text
}

// kernel is an entry point.
type kernel struct {
	name   string // name without the structure's name
	params string // name of the parameters
	body   []statement
	labels map[string]int // index in body of the statement after each label
}

// parseKernels returns the kernels with names that begin with the name of the image. It removes the
// name of the structure from their names.
func parseKernels(ptx, image, structure string) []kernel {
	const entry = ".visible .entry "
	var all []kernel
	var k *kernel
	inside := false
	for at, number := 0, 1; at < len(ptx); number++ { // number counts the lines of a kernel
		line, _, _ := strings.Cut(ptx[at:], "\n")
		switch {
		case strings.HasPrefix(line, entry+image+"_"):
			name := strings.TrimSuffix(line[len(entry):], "(")
			all = append(all, kernel{name: strings.TrimPrefix(name, structure+"_"), params: name + "_param_0", labels: map[string]int{}})
			k, number = &all[len(all)-1], 1
		case k != nil && line == "{":
			inside = true
		case k != nil && line == "}":
			k, inside = nil, false
		case inside:
			k.parseLine(line, at, number)
		}
		at += len(line) + 1
	}
	return all
}

// parseLine parses a line of a kernel's body: a label, a directive, or statements.
func (k *kernel) parseLine(line string, at, number int) {
	if label, ok := strings.CutSuffix(line, ":"); ok {
		k.labels[label] = len(k.body)
		return
	}
	for from := 0; from < len(line); {
		n := strings.IndexByte(line[from:], ';')
		if n < 0 {
			return
		}
		text := strings.TrimLeft(line[from:from+n], " \t")
		if from == 0 {
			text = strings.TrimPrefix(text, "{ ") // begins a block of inline assembly
		}
		end := at + from + n
		from += n + 1
		if text == "" || text[0] == '.' {
			continue
		}
		k.body = append(k.body, k.statement(text, end, number))
	}
}

func (k *kernel) statement(text string, end, line int) statement {
	s := statement{line: line, start: end - len(text), end: end}
	if text[0] == '@' {
		s.guard, text, _ = strings.Cut(text, " ")
	}
	op, rest, _ := strings.Cut(text, " ")
	s.op, s.args = op, operands(rest)
	return s
}

// operands splits text at commas outside brackets.
func operands(text string) (args []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(text[from:]); last != "" {
		args = append(args, last)
	}
	return args
}

// reads returns, for each register, how many statements read it.
func (k *kernel) reads() map[string]int {
	n := map[string]int{}
	for i := range k.body {
		s := &k.body[i]
		n[strings.TrimLeft(s.guard, "@!")]++
		for j, arg := range s.args {
			if j == 0 && s.writes() {
				continue
			}
			for _, r := range strings.FieldsFunc(arg, func(c rune) bool { return strings.ContainsRune("[]{}+-|!, ", c) }) {
				n[r]++
			}
		}
	}
	return n
}

// writes reports whether the first operand is a destination.
func (s *statement) writes() bool {
	switch s.name() {
	case "st", "red", "bra", "ret", "trap", "fence", "bar", "prefetch":
		return s.name() == "bar" && strings.HasPrefix(s.op, "bar.red")
	}
	return len(s.args) > 0
}

// typeOf returns the type of a register by its name, or "" for a register that inline assembly
// declares.
func typeOf(register string) string {
	switch name := strings.TrimRight(register, "0123456789"); name {
	case "%p":
		return "pred"
	case "%rs":
		return "b16"
	case "%r":
		return "b32"
	case "%rd":
		return "b64"
	}
	return ""
}
