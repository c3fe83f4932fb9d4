package sim

// This file implements cache policies, values that set how long data stays in the cache. They
// affect only time, which is not modelled. An access with a cache hint needs a policy, and only
// createpolicy makes policies.

// policyMark is the value of every policy.
const policyMark = 0x12f0_5eed << 32

// buildCreatePolicy resolves "createpolicy.fractional.priority[.other].b64 policy[, fraction]".
func buildCreatePolicy(a *assembler, s *statement, _ form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(u64)}
	if o.more() {
		o.src(types["f32"])
	}
	in.a = a.constant(policyMark)
	in.exec = apply1(func(a uint64) uint64 { return a })
	return in, o.done()
}

// policy resolves the last operand of an access with a cache hint, and stores its row in in.b. The
// access fails if the operand is not a policy.
func (o *operands) policy(in *instr) {
	in.b = o.src(u64)
	access := in.exec
	in.exec = func(w *warp, in *instr, m uint32) {
		for rest := m; rest != 0; rest &= rest - 1 {
			if lane := lowest(rest); w.rows[in.b][lane] != policyMark {
				w.fail(in, lane, "0x%x is not a cache policy: make one with createpolicy",
					w.rows[in.b][lane])
				return
			}
		}
		access(w, in, m)
	}
}
