package sim

// These are choices of types and modifiers, as PTX lists them for each instruction.
const (
	intTypes   = "u16|s16|u32|s32|u64|s64"
	intTypes32 = "u32|s32|u64|s64"
	bitTypes   = "b16|b32|b64"
	bitTypes32 = "b32|b64"
	floatTypes = "f32|f64"

	memTypes = "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
	windows  = "?global|shared|shared::cta|local|const|param"
	shareds  = "?global|shared|shared::cta"
	orders   = "?weak|volatile|relaxed|acquire|release"
	scopes   = "?cta|gpu|sys"
	cacheLd  = "?ca|cg|cs|lu|cv"
	cacheSt  = "?wb|cg|cs|wt"
	evict    = "?L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
	hint     = "?L2::cache_hint"
	prefetch = "?L2::64B|L2::128B|L2::256B"

	rounded      = "rn|rz|rm|rp"
	integral     = "rni|rzi|rmi|rpi"
	allIntTypes  = "u8|s8|u16|s16|u32|s32|u64|s64"
	floatCompare = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
)

// table maps a name to the rows of all instructions that the interpreter supports. The functions in
// the rows resolve an instruction; each family has its own file.
var table = index([]opcode{
	// Integer arithmetic: integer.go.
	{"add", intTypes, rows2(op2(add), addRows)},
	{"sub", intTypes, rows2(op2(sub), subRows)},
	{"mul", "lo " + intTypes, rows2(op2(mulLow), mulLowRows)},
	{"mul", "hi " + intTypes, op2(mulHigh)},
	{"mul", "wide u16|s16|u32|s32", rows2(wide(2, mulWide), mulWideRows)},
	{"mad", "lo " + intTypes, rows3(op3(madLow), madLowRows)},
	{"mad", "hi " + intTypes, op3(madHigh)},
	{"mad", "wide u16|s16|u32|s32", wide(3, madWide)},
	{"div", intTypes, divide(div)},
	{"rem", intTypes, divide(rem)},
	{"abs", "s16|s32|s64", op1(abs)},
	{"neg", "s16|s32|s64", op1(neg)},
	{"min", intTypes, op2(minimum)},
	{"max", intTypes, op2(maximum)},
	{"popc", bitTypes32, count(popc)},
	{"clz", bitTypes32, count(clz)},
	{"bfind", "?shiftamt " + intTypes32, find(bfind)},
	{"brev", bitTypes32, op1(brev)},
	{"bfe", intTypes32, bitField(bfe)},
	{"bfi", bitTypes32, buildInsert},

	// Floating-point arithmetic: floatops.go.
	{"add", "?" + rounded + " ?ftz ?sat f32", arithmetic(&floatAdd, 2)},
	{"add", "?" + rounded + " f64", arithmetic(&floatAdd, 2)},
	{"sub", "?" + rounded + " ?ftz ?sat f32", arithmetic(&floatSub, 2)},
	{"sub", "?" + rounded + " f64", arithmetic(&floatSub, 2)},
	{"mul", "?" + rounded + " ?ftz ?sat f32", arithmetic(&floatMul, 2)},
	{"mul", "?" + rounded + " f64", arithmetic(&floatMul, 2)},
	{"fma", rounded + " ?ftz ?sat f32", arithmetic(&floatFMA, 3)},
	{"fma", rounded + " f64", arithmetic(&floatFMA, 3)},
	{"mad", rounded + " ?ftz ?sat f32", arithmetic(&floatFMA, 3)},
	{"mad", rounded + " f64", arithmetic(&floatFMA, 3)},
	{"div", rounded + " ?ftz f32", arithmetic(&floatDiv, 2)},
	{"div", rounded + " f64", arithmetic(&floatDiv, 2)},
	{"rcp", rounded + " ?ftz f32", arithmetic(&floatRcp, 1)},
	{"rcp", rounded + " f64", arithmetic(&floatRcp, 1)},
	{"sqrt", rounded + " ?ftz f32", arithmetic(&floatSqrt, 1)},
	{"sqrt", rounded + " f64", arithmetic(&floatSqrt, 1)},
	{"abs", "?ftz f32", bits1(floatAbs)},
	{"abs", "f64", bits1(floatAbs)},
	{"neg", "?ftz f32", bits1(floatNeg)},
	{"neg", "f64", bits1(floatNeg)},
	{"copysign", floatTypes, buildCopySign},
	{"testp", "finite|infinite|number|notanumber|normal|subnormal " + floatTypes, buildTestProperty},
	{"min", "?ftz ?NaN f32", extreme(true)},
	{"min", "f64", extreme(true)},
	{"max", "?ftz ?NaN f32", extreme(false)},
	{"max", "f64", extreme(false)},

	// Logic and shifts: logic.go.
	{"and", "pred", predicates2(func(a, b uint32) uint32 { return a & b })},
	{"or", "pred", predicates2(func(a, b uint32) uint32 { return a | b })},
	{"xor", "pred", predicates2(func(a, b uint32) uint32 { return a ^ b })},
	{"not", "pred", predicates1(func(a uint32) uint32 { return ^a })},
	{"and", bitTypes, rows2(op2(and), andRows)},
	{"or", bitTypes, rows2(op2(or), orRows)},
	{"xor", bitTypes, rows2(op2(xor), xorRows)},
	{"not", bitTypes, op1(not)},
	{"cnot", bitTypes, op1(cnot)},
	{"lop3", "b32", buildLop3},
	{"shl", bitTypes, rows2(shift(shl), shlRows)},
	{"shr", "b16|b32|b64|u16|u32|u64|s16|s32|s64", rows2(shift(shr), shrRows)},
	{"shf", "l|r clamp|wrap b32", buildFunnel},
	{"prmt", "b32 ?f4e|b4e|rc8|ecl|ecr|rc16", buildPermute},

	// Comparison and selection: compare.go.
	{"setp", "eq|ne ?and|or|xor b16|b32|b64", buildCompare},
	{"setp", "eq|ne|lt|le|gt|ge ?and|or|xor s16|s32|s64", buildCompare},
	{"setp", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs ?and|or|xor u16|u32|u64", buildCompare},
	{"setp", floatCompare + " ?and|or|xor ?ftz f32", buildCompare},
	{"setp", floatCompare + " ?and|or|xor f64", buildCompare},
	{"set", "eq|ne ?and|or|xor u32|s32|f32 b16|b32|b64", buildSet},
	{"set", "eq|ne|lt|le|gt|ge ?and|or|xor u32|s32|f32 s16|s32|s64", buildSet},
	{"set", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs ?and|or|xor u32|s32|f32 u16|u32|u64", buildSet},
	{"set", floatCompare + " ?and|or|xor ?ftz u32|s32|f32 f32", buildSet},
	{"set", floatCompare + " ?and|or|xor u32|s32|f32 f64", buildSet},
	{"selp", "b16|b32|b64|" + intTypes + "|" + floatTypes, buildSelect},

	// Moves and conversions: move.go.
	{"mov", "pred", predicates1(func(a uint32) uint32 { return a })},
	{"mov", "b16|b32|b64|" + intTypes + "|" + floatTypes, buildMove},
	{"mov", "b128", buildMove},
	{"cvt", allIntTypes + " " + allIntTypes, buildConvert},
	// The assembler of PTX refuses forms that can never saturate.
	{"cvt", "sat u8 s8|u16|s16|u32|s32|u64|s64", buildConvert},
	{"cvt", "sat s8 u8|u16|s16|u32|s32|u64|s64", buildConvert},
	{"cvt", "sat u16 s8|s16|u32|s32|u64|s64", buildConvert},
	{"cvt", "sat s16 u16|u32|s32|u64|s64", buildConvert},
	{"cvt", "sat u32 s8|s16|s32|u64|s64", buildConvert},
	{"cvt", "sat s32 u32|u64|s64", buildConvert},
	{"cvt", "sat u64 s8|s16|s32|s64", buildConvert},
	{"cvt", "sat s64 u64", buildConvert},
	// Conversions of floating-point numbers: floatconvert.go.
	{"cvt", integral + " ?ftz ?sat " + allIntTypes + " f32", buildFloatToInteger},
	{"cvt", integral + " ?sat " + allIntTypes + " f64", buildFloatToInteger},
	{"cvt", rounded + " " + floatTypes + " " + allIntTypes, buildIntegerToFloat},
	{"cvt", rounded + " ?ftz ?sat f32 f64", buildFloatToFloat},
	{"cvt", "?ftz f64 f32", buildFloatToFloat},
	{"cvt", integral + " ?ftz ?sat f32 f32", buildFloatToFloat},
	{"cvt", integral + " f64 f64", buildFloatToFloat},
	{"cvt", "?ftz sat f32 f32", buildFloatToFloat},
	{"cvta", "?to global|shared|shared::cta|local|const u64", buildConvertAddress},
	{"isspacep", "global|shared|shared::cta|local", buildIsSpace},

	// Memory: access.go, atomic.go, fence.go, cache.go.
	{"ld", orders + " " + scopes + " " + windows + " " + cacheLd + " " + evict + " " + hint + " " + prefetch + " ?v2|v4 " + memTypes, buildLoad},
	{"ld", "global ?ca|cg|cs nc " + evict + " " + hint + " " + prefetch + " ?v2|v4 " + memTypes, buildLoadReadOnly},
	{"ldu", "?global ?v2|v4 " + memTypes, buildLoadUniform},
	{"st", orders + " " + scopes + " " + windows + " " + cacheSt + " " + evict + " " + hint + " ?v2|v4 " + memTypes, buildStore},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " cas b16|b32|b64|b128", buildCompareSwap},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " exch b32|b64|b128", buildAtomic},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " and|or|xor b32|b64", buildAtomic},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " add u32|s32|u64|f32|f64", buildAtomic},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " min|max u32|s32|u64|s64", buildAtomic},
	{"atom", "?relaxed|acquire|release|acq_rel " + scopes + " " + shareds + " inc|dec u32", buildAtomic},
	{"red", "?relaxed|release " + scopes + " " + shareds + " and|or|xor b32|b64", buildReduction},
	{"red", "?relaxed|release " + scopes + " " + shareds + " add u32|s32|u64|f32|f64", buildReduction},
	{"red", "?relaxed|release " + scopes + " " + shareds + " min|max u32|s32|u64|s64", buildReduction},
	{"red", "?relaxed|release " + scopes + " " + shareds + " inc|dec u32", buildReduction},
	{"fence", "?sc|acq_rel cta|gpu|sys", buildFence},
	{"membar", "cta|gl|sys", buildMembar},
	{"createpolicy", "fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged ?L2::evict_first|L2::evict_unchanged b64", buildCreatePolicy},
	{"prefetch", "?global L1|L2", buildNoop},
	{"prefetchu", "L1", buildNoop},

	// Within a warp: collective.go. Within a block: barrier.go.
	{"shfl", "sync up|down|bfly|idx b32", buildShuffle},
	{"vote", "sync all|any|uni pred", buildVote},
	{"vote", "sync ballot b32", buildBallot},
	{"match", "any sync b32|b64", buildMatchAny},
	{"match", "all sync b32|b64", buildMatchAll},
	{"redux", "sync add|min|max u32|s32", buildRedux},
	{"redux", "sync and|or|xor b32", buildRedux},
	{"activemask", "b32", buildActiveMask},
	{"elect", "sync", buildElect},
	{"bar", "warp sync", buildWarpBarrier},
	{"bar", "?cta sync", buildBarrier},
	{"barrier", "?cta sync aligned", buildBarrier},
	{"bar", "?cta red popc u32", buildBarrierReduce},
	{"bar", "?cta red and|or pred", buildBarrierReduce},

	// Control: control.go.
	{"bra", "?uni", buildBranch},
	{"brx", "idx ?uni", buildBranchTable},
	{"ret", "?uni", buildExit},
	{"exit", "", buildExit},
	{"trap", "", buildTrap},
	{"nanosleep", "u32", buildSleep},
})

func index(rows []opcode) map[string][]opcode {
	m := map[string][]opcode{}
	for _, r := range rows {
		m[r.name] = append(m[r.name], r)
	}
	return m
}
