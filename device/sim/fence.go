package sim

// This file implements fences.

// buildFence resolves "fence[.sem].scope". The default of sem is acq_rel.
func buildFence(a *assembler, s *statement, f form) (instr, error) {
	ac := &access{order: orderAcqRel, scope: scopeNamed[f[1]]}
	if f[0] == "sc" {
		ac.order = orderSC
	}
	return instr{kind: kindMemory, access: ac, exec: execFence}, a.operands(s).done()
}

// buildMembar resolves membar. Since PTX ISA 6.0 it is a synonym of fence.sc.
func buildMembar(a *assembler, s *statement, f form) (instr, error) {
	ac := &access{order: orderSC, scope: scopeNamed[f[0]]}
	return instr{kind: kindMemory, access: ac, exec: execFence}, a.operands(s).done()
}

func execFence(w *warp, in *instr, m uint32) {
	l := w.launch
	for ; m != 0; m &= m - 1 {
		lane := lowest(m)
		if l.views != nil {
			l.views.fence(w, lane, in.access.order, in.access.scope)
		}
		if l.domain != nil && l.crash == nil {
			l.crash = l.domain.Fence(w.threadAt(lane), in.access.scope, w.before(lane))
		}
	}
}
