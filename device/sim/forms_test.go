package sim

import (
	"fmt"
	"slices"
	"strings"
)

// This file has the forms that are compared with hardware. The kernel of a form executes it once in
// every lane, on operands from a table.

// formKernel is a kernel for one form.
type formKernel struct {
	form string // "add.u32"; a variant follows after a space
	arch int    // oldest architecture that has it
	ptx  string
	in   []uint64 // formInputs words for each of its threads
}

// These are the number of threads of most kernels, and of words that each reads and writes.
const (
	formThreads = 128
	formInputs  = 6
	formOutputs = 4
)

// signatures maps the opcode without types to the operands of an instruction on registers. "="
// marks a destination. "t" is the last type of the form, "w" is a type twice as wide, and "x" is
// the type before the last. p is a predicate. Any other word stands for itself.
var signatures = map[string][]string{
	"add": {"=t t t"}, "sub": {"=t t t"}, "min": {"=t t t"}, "max": {"=t t t"},
	"mul.lo": {"=t t t"}, "mul.hi": {"=t t t"}, "mul.wide": {"=w t t"},
	"mad.lo": {"=t t t t"}, "mad.hi": {"=t t t t"}, "mad.wide": {"=w t t w"},
	"div": {"=t t nonzero"}, "rem": {"=t t nonzero"}, "abs": {"=t t"}, "neg": {"=t t"},
	"popc": {"=u32 t"}, "clz": {"=u32 t"}, "bfind": {"=u32 t"}, "bfind.shiftamt": {"=u32 t"}, "brev": {"=t t"},
	"bfe": {"=t t byte byte"}, "bfi": {"=t t t byte byte"},
	"and": {"=t t t"}, "or": {"=t t t"}, "xor": {"=t t t"}, "not": {"=t t"}, "cnot": {"=t t"},
	"lop3": {"=t t t t 0x96", "=t t t t 0xe8", "=t t t t 0x1b", "=t t t t 0"},
	"shl":  {"=t t byte", "=t t u32"}, "shr": {"=t t byte", "=t t u32"},
	"shf.l.clamp": {"=t t t byte"}, "shf.l.wrap": {"=t t t byte"}, "shf.r.clamp": {"=t t t byte"}, "shf.r.wrap": {"=t t t byte"},
	"prmt": {"=t t t t"}, "selp": {"=t t t p"}, "mov": {"=t t"},
}

// formKernels returns a kernel for every form, and for a selection of memory accesses.
func formKernels() []formKernel {
	var all []formKernel
	seen := map[string]bool{}
	tables := formTables()
	put := func(form, variant string, arch int, body string) {
		name := strings.TrimSpace(form + " " + variant)
		if !seen[name] {
			seen[name] = true
			all = append(all, formKernel{name, arch, formModule(arch, body), tables.of(form)})
		}
	}
	for _, name := range opcodeOrder {
		for _, row := range table[name] {
			for _, form := range rowForms(&row) {
				for variant, body := range formBodies(form) {
					put(form, variant, formArch(form), body)
				}
			}
		}
	}
	return all
}

// formArch returns the oldest architecture of a form: 80, or 90 for newer forms.
func formArch(form string) int {
	if strings.HasPrefix(form, "atom") && strings.HasSuffix(form, "b128") || strings.HasPrefix(form, "elect") {
		return 90
	}
	return 80
}

// opcodeOrder makes the order of the list deterministic.
var opcodeOrder = strings.Fields("add sub mul mad div rem abs neg min max popc clz bfind brev bfe bfi fma rcp sqrt copysign testp " +
	"and or xor not cnot lop3 shl shr shf prmt setp set selp mov cvt cvta isspacep ld st atom red fence membar createpolicy " +
	"shfl vote match redux activemask elect bar barrier")

// rowForms returns the forms of a row that get a kernel. If these are too many, it selects some.
func rowForms(row *opcode) []string {
	switch row.name {
	case "set":
		// set compares as setp does.
		return slices.DeleteFunc(row.forms(), func(form string) bool {
			list := strings.Split(form, ".")
			return len(list) > 4 && list[2] != "ftz" && list[1] != "ne" || slices.Contains(list, "s32") && list[1] != "ne"
		})
	case "ld", "st", "atom", "red":
		var some []string
		for _, form := range memoryForms() {
			name, rest, _ := strings.Cut(form, ".")
			if _, ok := row.match(strings.Split(rest, ".")); ok && name == row.name {
				some = append(some, form)
			}
		}
		return some
	}
	return row.forms()
}

// memoryForms selects forms of loads, stores and atomics: each type, space, cache operator, order
// and scope, but not all combinations.
func memoryForms() []string {
	var all []string
	for _, t := range strings.Split(memTypes, "|") {
		if t != "b128" {
			all = append(all, "ld.global."+t, "st.global."+t, "ld.shared."+t, "st.shared."+t, "ld.local."+t, "st.local."+t, "ld.param."+t)
			for _, v := range []string{"v2.", "v4."} {
				if types[t].bits*int(v[1]-'0') <= 128 {
					all = append(all, "ld.global."+v+t, "st.global."+v+t, "ld.param."+v+t, "ld.shared."+v+t, "st.shared."+v+t)
				}
			}
		}
	}
	for _, t := range []string{"u8", "b32", "b64"} {
		for _, how := range []string{"ca", "cg", "cs", "lu", "cv", "nc"} {
			all = append(all, "ld.global."+how+"."+t)
		}
		for _, how := range []string{"wb", "cg", "cs", "wt"} {
			all = append(all, "st.global."+how+"."+t)
		}
		for _, how := range []string{"weak", "volatile"} {
			all = append(all, "ld."+how+".global."+t, "st."+how+".global."+t)
		}
		for _, scope := range []string{"cta", "gpu", "sys"} {
			all = append(all, "ld.relaxed."+scope+".global."+t, "ld.acquire."+scope+".global."+t,
				"st.relaxed."+scope+".global."+t, "st.release."+scope+".global."+t)
		}
		all = append(all, "ld."+t, "st."+t, "ld.global.L1::no_allocate."+t)
		for _, how := range []string{"", "relaxed.gpu.", "relaxed.sys."} {
			all = append(all, "ld."+how+"global.L2::cache_hint."+t, "st."+how+"global.L2::cache_hint."+t)
		}
		all = append(all, "ld.acquire.gpu.global.L2::cache_hint."+t, "st.release.gpu.global.L2::cache_hint."+t,
			"ld.global.cs.L2::cache_hint."+t, "ld.global.L1::evict_last.L2::cache_hint."+t, "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B."+t,
			"ld.relaxed.cta.shared."+t, "st.relaxed.cta.shared."+t)
	}
	all = append(all, "ld.global.cs.u16", "st.global.cs.u16")
	for _, t := range []string{"u32", "u64"} { // through generic addresses
		all = append(all, "ld."+t, "st."+t)
	}
	all = append(all, "ld.global.L2::cache_hint.v2.b64", "st.global.L2::cache_hint.v2.b64", "ld.global.L1::no_allocate.v2.b64")
	all = append(all, "ld.relaxed.gpu.global.b128", "st.relaxed.gpu.global.b128", "ld.acquire.gpu.global.b128", "st.release.gpu.global.b128")
	for op, kinds := range map[string]string{
		"exch": "b32 b64", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "add": "u32 s32 u64 f32 f64",
		"min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32", "cas": "b16 b32 b64",
	} {
		for t := range strings.FieldsSeq(kinds) {
			all = append(all, "atom.global."+op+"."+t, "atom.relaxed.gpu.global."+op+"."+t, "atom.shared."+op+"."+t)
			if t != "b16" {
				all = append(all, "atom.acquire.gpu.global."+op+"."+t, "atom.release.gpu.global."+op+"."+t, "atom.release.cta.global."+op+"."+t, "atom.acq_rel.sys.global."+op+"."+t, "atom."+op+"."+t)
				for _, order := range []string{"relaxed.sys", "acquire.sys", "release.sys", "acq_rel.gpu"} {
					all = append(all, "atom."+order+".global."+op+"."+t)
				}
				all = append(all, "atom.relaxed.cta.shared."+op+"."+t)
			}
			if op != "exch" && op != "cas" {
				all = append(all, "red.global."+op+"."+t, "red.relaxed.gpu.global."+op+"."+t, "red.release.gpu.global."+op+"."+t, "red.shared."+op+"."+t)
			}
		}
	}
	return append(all, "atom.relaxed.gpu.global.cas.b128", "atom.relaxed.gpu.global.exch.b128", "atom.acquire.gpu.global.cas.b128", "red.relaxed.cta.shared.add.f64")
}

// formBodies returns the bodies of kernels for a form, by variant.
func formBodies(form string) map[string]string {
	op, mods, _ := strings.Cut(form, ".")
	list := strings.Split(mods, ".")
	t := list[len(list)-1]
	switch op {
	case "set":
		return setBodies(form, list)
	case "testp":
		return map[string]string{"": fill(form+" %p1, A", t) + ";\nselp.b64 %o0, 1, 0, %p1;\n"}
	case "createpolicy":
		return map[string]string{"": form + " %d9;\nst.global.u64 [%out], %i0;\nld.global.L2::cache_hint.u64 %o0, [%out], %d9;\n" +
			form + " %d9, 0f3F000000;\nst.global.L2::cache_hint.u64 [%out], %i1, %d9;\nld.global.u64 %o1, [%out];\n"}
	case "setp":
		b := map[string]string{"": form + " %p1|%p2, A, B", "p only": form + " %p1, A, B"}
		if floating(t) {
			delete(b, "p only") // same as for integers
		}
		for k, v := range b {
			if combines(list) {
				v += ", P"
			}
			b[k] = fill(v, t) + ";\nselp.b64 %o0, 1, 0, %p1;\n"
			if k == "" {
				b[k] += "selp.b64 %o1, 1, 0, %p2;\n"
			}
		}
		return b
	case "cvt":
		return convertBodies(form, list)
	case "cvta", "isspacep":
		return spaceBodies(op, form, list)
	case "ld", "st", "atom", "red":
		bodies := map[string]string{"": memoryBody(op, form, list)}
		if form == "atom.add.f32" { // its result depends on the space
			bodies["in shared memory"] = strings.Replace(memoryBody(op, "atom.shared.add.f32", []string{"shared", "add", "f32"}),
				"atom.shared.add.f32 %f1, [%d10]", "cvta.shared.u64 %d13, %d10;\natom.add.f32 %f1, [%d13]", 1)
		}
		return bodies
	case "fence", "membar":
		return map[string]string{"": "st.global.u64 [%out], %i0;\n" + form + ";\nld.global.u64 %o0, [%out];\n"}
	case "shfl", "vote", "match", "redux", "activemask", "elect", "bar", "barrier":
		return collectiveBodies(op, form, list)
	}
	if t == "pred" {
		text := form + " %p1, P, Q"
		if op == "not" || op == "mov" {
			text = form + " %p1, P"
		}
		return map[string]string{"": fill(text, "b32") + ";\nselp.b64 %o0, 1, 0, %p1;\n"}
	}
	if sources, ok := floatSources[op]; ok && floating(t) {
		return map[string]string{"": registerBody(form, t, "=t"+strings.Repeat(" t", sources))}
	}
	if form == "mov.b128" {
		return map[string]string{"": "mov.b128 %q1, {%i0, %i1};\nmov.b128 %q2, %q1;\nmov.b128 {%o0, %o1}, %q2;\n"}
	}
	key := op
	if len(list) > 1 && op != "prmt" {
		key = op + "." + strings.Join(list[:len(list)-1], ".")
	}
	if op == "prmt" {
		t = "b32"
	}
	bodies := map[string]string{}
	for i, sig := range signatures[key] {
		variant := ""
		if i > 0 {
			variant = fmt.Sprint("variant ", i)
		}
		bodies[variant] = registerBody(form, t, sig)
	}
	if op == "mov" && (t == "b32" || t == "b64") {
		bodies["pack"], bodies["unpack"] = packBodies(t)
	}
	return bodies
}
