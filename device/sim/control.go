package sim

// This file implements control instructions: branches, exits, traps and sleeping.

func buildBranch(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	target := o.next()
	return instr{kind: kindBranch, target: a.block[target.sym]}, o.done()
}

func buildBranchTable(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{kind: kindTable, a: o.src(u32)}
	for _, name := range a.k.tables[o.next().sym] {
		in.list = append(in.list, a.block[name])
	}
	return in, o.done()
}

func buildExit(a *assembler, s *statement, f form) (instr, error) {
	return instr{kind: kindExit}, a.operands(s).done()
}

func buildTrap(a *assembler, s *statement, f form) (instr, error) {
	return instr{kind: kindTrap}, a.operands(s).done()
}

// buildSleep resolves nanosleep, which lets other lanes and warps run.
func buildSleep(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	o.src(u32)
	return instr{kind: kindYield}, o.done()
}

// buildNoop resolves cache hints, which have no effect.
func buildNoop(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	o.address(spaceGeneric)
	return instr{exec: func(*warp, *instr, uint32) {}}, o.done()
}
