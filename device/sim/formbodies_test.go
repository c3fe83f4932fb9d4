package sim

import (
	"fmt"
	"strings"
)

// formModule returns a module with the body of a form in a kernel. %i0 to %i5 hold inputs and %o0
// to %o3 outputs, which are 0 at first. %in and %out point to the thread's words.
func formModule(arch int, body string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".version 8.3\n.target sm_%d\n.address_size 64\n", arch)
	s.WriteString(`.visible .entry k(.param .align 16 .b8 p[32])
{
	.reg .pred %p<10>, %P, %Q;
	.reg .b16 %h<10>;
	.reg .b32 %w<20>, %self, %lane;
	.reg .b64 %d<20>, %i<6>, %o<4>, %in, %out;
	.reg .f32 %f<10>;
	.reg .f64 %g<10>;
	.reg .b128 %q<10>;
	.shared .align 16 .b8 sh[4096];
	.local .align 16 .b8 lo[64];
	ld.param.u64 %in, [p];
	ld.param.u64 %out, [p+8];
	mov.u32 %self, %tid.x;
	mov.u32 %lane, %laneid;
	mul.wide.u32 %d0, %self, 48;
	add.u64 %in, %in, %d0;
	mul.wide.u32 %d0, %self, 32;
	add.u64 %out, %out, %d0;
`)
	for i := range formInputs {
		fmt.Fprintf(&s, "	ld.global.u64 %%i%d, [%%in+%d];\n", i, 8*i)
	}
	for i := range formOutputs {
		fmt.Fprintf(&s, "	mov.u64 %%o%d, 0;\n", i)
	}
	s.WriteString("	and.b64 %d1, %i4, 1;\n	setp.ne.u64 %P, %d1, 0;\n	and.b64 %d1, %i4, 2;\n	setp.ne.u64 %Q, %d1, 0;\n")
	s.WriteString(body)
	for i := range formOutputs {
		fmt.Fprintf(&s, "	st.global.u64 [%%out+%d], %%o%d;\n", 8*i, i)
	}
	s.WriteString("	ret;\n}\n")
	return s.String()
}

func width(t string) int { return types[t].bits }

// bank returns the class of registers of a type.
func bank(t string) string {
	switch {
	case t == "f32":
		return "%f"
	case t == "f64":
		return "%g"
	case width(t) <= 16:
		return "%h"
	case width(t) == 32:
		return "%w"
	}
	return "%d"
}

// narrow returns code that converts a 64-bit register to a type. widen converts back, with zeros.
func narrow(t, to, from string) string {
	switch {
	case t == "f32":
		return fmt.Sprintf("cvt.u32.u64 %%w19, %s;\nmov.b32 %s, %%w19;\n", from, to)
	case width(t) == 64:
		return fmt.Sprintf("mov.b64 %s, %s;\n", to, from)
	}
	return fmt.Sprintf("cvt.u%d.u64 %s, %s;\n", max(width(t), 16), to, from)
}

func widen(t, to, from string) string {
	switch {
	case t == "f32":
		return fmt.Sprintf("mov.b32 %%w19, %s;\ncvt.u64.u32 %s, %%w19;\n", from, to)
	case width(t) == 64:
		return fmt.Sprintf("mov.b64 %s, %s;\n", to, from)
	}
	return fmt.Sprintf("cvt.u64.u%d %s, %s;\n", max(width(t), 16), to, from)
}

// fill replaces A to D in text by inputs of a type, and P and Q by predicates.
func fill(text, t string) string {
	var before strings.Builder
	op, args, _ := strings.Cut(text, " ")
	for i, letter := range []string{"A", "B", "C", "D"} {
		if strings.Contains(args, letter) {
			reg := bank(t) + fmt.Sprint(i+2)
			before.WriteString(narrow(t, reg, fmt.Sprintf("%%i%d", i)))
			args = strings.ReplaceAll(args, letter, reg)
		}
	}
	args = strings.ReplaceAll(strings.ReplaceAll(args, "P", "%P"), "Q", "%Q")
	return before.String() + op + " " + args
}

// registerBody returns code that executes a form by its signature.
func registerBody(form, t, sig string) string {
	var before, after strings.Builder
	var args []string
	input := 0
	for word := range strings.FieldsSeq(sig) {
		typ, dst := strings.CutPrefix(word, "=")
		switch typ {
		case "t", "nonzero":
			typ = t
		case "w":
			typ = fmt.Sprintf("%c%d", t[0], 2*width(t))
		case "byte":
			reg := fmt.Sprintf("%%w%d", input+2)
			fmt.Fprintf(&before, "cvt.u32.u64 %s, %%i%d;\nand.b32 %s, %s, 255;\n", reg, input, reg, reg)
			args = append(args, reg)
			input++
			continue
		case "p":
			args = append(args, "%P")
			continue
		}
		switch {
		case types[typ].bits == 0: // a number
			args = append(args, typ)
		case dst:
			reg := bank(typ) + "1"
			args = append(args, reg)
			after.WriteString(widen(typ, "%o0", reg))
		default:
			reg := fmt.Sprintf("%s%d", bank(typ), input+2)
			before.WriteString(narrow(typ, reg, fmt.Sprintf("%%i%d", input)))
			if word == "nonzero" {
				fmt.Fprintf(&before, "or.b%d %s, %s, 1;\n", width(typ), reg, reg)
			}
			args = append(args, reg)
			input++
		}
	}
	return before.String() + form + " " + strings.Join(args, ", ") + ";\n" + after.String()
}

func packBodies(t string) (pack, unpack string) {
	if t == "b32" {
		return "cvt.u16.u64 %h2, %i0;\ncvt.u16.u64 %h3, %i1;\nmov.b32 %w1, {%h2, %h3};\ncvt.u64.u32 %o0, %w1;\n",
			"cvt.u32.u64 %w1, %i0;\nmov.b32 {%h2, %h3}, %w1;\ncvt.u64.u16 %o0, %h2;\ncvt.u64.u16 %o1, %h3;\n"
	}
	return "cvt.u32.u64 %w2, %i0;\ncvt.u32.u64 %w3, %i1;\nmov.b64 %o0, {%w2, %w3};\n",
		"mov.b64 {%w2, %w3}, %i0;\ncvt.u64.u32 %o0, %w2;\ncvt.u64.u32 %o1, %w3;\n"
}

// convertBodies returns conversions between registers as narrow as PTX allows, and to a wider one.
func convertBodies(form string, list []string) map[string]string {
	to, from := list[len(list)-2], list[len(list)-1]
	before := narrow(from, bank(from)+"2", "%i0") + form
	bodies := map[string]string{"": before + " " + bank(to) + "1, " + bank(from) + "2;\n" + widen(to, "%o0", bank(to)+"1")}
	if width(to) < 32 {
		bodies["to a wider register"] = before + " %w5, " + bank(from) + "2;\ncvt.u64.u32 %o1, %w5;\n"
	}
	return bodies
}

// spaceBodies returns conversions of an address to the generic space and back.
func spaceBodies(op, form string, list []string) map[string]string {
	space := strings.TrimSuffix(list[len(list)-1], "::cta")
	if op == "cvta" {
		space = strings.TrimSuffix(list[len(list)-2], "::cta")
	}
	if space == "const" {
		return nil
	}
	address := map[string]string{"global": "mov.u64 %d2, %in;\n", "shared": "mov.u64 %d2, sh;\n", "local": "mov.u64 %d2, lo;\n"}
	if op == "isspacep" {
		bodies := map[string]string{}
		for of, code := range address {
			bodies["of "+of] = code + "cvta." + of + ".u64 %d3, %d2;\n" + form + " %p1, %d3;\nselp.b64 %o0, 1, 0, %p1;\n"
		}
		return bodies
	}
	other, there, back := "cvta.to."+space+".u64", form, ""
	if list[0] == "to" {
		other, there, back = form, "cvta."+space+".u64", ""
	}
	return map[string]string{"": address[space] + there + " %d3, %d2;\n" + other + " %d4, %d3;\nsub.u64 %o0, %d4, %d2;\n" + back}
}

// memoryBody returns code that stores the first inputs in a memory cell of the thread, in the space
// of the form, and then makes the access. The outputs are the loaded value and the cell's final
// contents.
func memoryBody(op, form string, list []string) string {
	t := list[len(list)-1]
	space := "global"
	for _, m := range list {
		if m == "shared" || m == "local" {
			space = m
		}
	}
	var s strings.Builder
	switch space {
	case "global":
		s.WriteString("mov.u64 %d10, %out;\n")
	case "shared":
		s.WriteString("mov.u64 %d10, sh;\nmul.wide.u32 %d11, %self, 32;\nadd.u64 %d10, %d10, %d11;\n")
	case "local":
		s.WriteString("mov.u64 %d10, lo;\n")
	}
	switch {
	case strings.HasPrefix(form, "ld.param"):
		return strings.ReplaceAll(loadBody(form, t, elements(form)), "[%d10]", "[p+16]")
	case strings.Contains(form, ".nc."):
		s.Reset() // the read-only path requires memory that is not written
		s.WriteString("mov.u64 %d10, %in;\n")
	default:
		fmt.Fprintf(&s, "st.%s.u64 [%%d10], %%i0;\nst.%s.u64 [%%d10+8], %%i1;\n", space, space)
	}
	if strings.Contains(form, "cache_hint") {
		s.WriteString("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d9;\n")
	}
	switch op {
	case "ld":
		s.WriteString(loadBody(form, t, elements(form)))
	case "st":
		s.WriteString(storeBody(form, t, elements(form)))
	default:
		s.WriteString(atomicBody(op, form, t))
	}
	fmt.Fprintf(&s, "ld.%s.u64 %%o2, [%%d10];\nld.%s.u64 %%o3, [%%d10+8];\n", space, space)
	return s.String()
}

// elements returns the number of elements that a form accesses.
func elements(form string) int {
	switch {
	case strings.Contains(form, ".v2."):
		return 2
	case strings.Contains(form, ".v4."):
		return 4
	}
	return 1
}

// hintOf returns the last operand of an access with a cache policy.
func hintOf(form string) string {
	if strings.Contains(form, "cache_hint") {
		return ", %d9"
	}
	return ""
}

func loadBody(form, t string, count int) string {
	hint := hintOf(form)
	if t == "b128" {
		return form + " %q1, [%d10];\nmov.b128 {%o0, %o1}, %q1;\n"
	}
	if count > 1 {
		var regs []string
		var after strings.Builder
		for i := range count {
			reg := fmt.Sprintf("%s%d", bank(t), i+1)
			regs = append(regs, reg)
			after.WriteString(widen(t, "%d12", reg) + fmt.Sprintf("mad.lo.u64 %%o%d, %%o%d, 3, %%d12;\n", i%2, i%2))
		}
		return form + " {" + strings.Join(regs, ", ") + "}, [%d10]" + hint + ";\n" + after.String()
	}
	body := form + " " + bank(t) + "1, [%d10]" + hint + ";\n" + widen(t, "%o0", bank(t)+"1")
	if width(t) < 64 && t[0] != 'f' {
		body += form + " %o1, [%d10]" + hint + ";\n" // into a wider register
	}
	return body
}

func storeBody(form, t string, count int) string {
	if t == "b128" {
		return "mov.b128 %q1, {%i2, %i3};\n" + form + " [%d10], %q1;\n"
	}
	var regs []string
	var before strings.Builder
	for i := range count {
		reg := fmt.Sprintf("%s%d", bank(t), i+1)
		regs = append(regs, reg)
		before.WriteString(narrow(t, reg, fmt.Sprintf("%%i%d", 2+i)))
	}
	if count == 1 {
		return before.String() + form + " [%d10], " + regs[0] + hintOf(form) + ";\n"
	}
	return before.String() + form + " [%d10], {" + strings.Join(regs, ", ") + "}" + hintOf(form) + ";\n"
}

// atomicBody returns an atomic. A compare-and-swap expects the old value in every other thread.
func atomicBody(op, form, t string) string {
	if t == "b128" {
		body := "selp.b64 %d2, %i0, %i2, %P;\nmov.b128 %q2, {%d2, %i1};\nmov.b128 %q3, {%i3, %i4};\n"
		if strings.Contains(form, ".cas.") {
			return body + form + " %q1, [%d10], %q2, %q3;\nmov.b128 {%o0, %o1}, %q1;\n"
		}
		return body + form + " %q1, [%d10], %q3;\nmov.b128 {%o0, %o1}, %q1;\n"
	}
	r := bank(t)
	body := "selp.b64 %d12, %i0, %i2, %P;\n" + narrow(t, r+"2", "%d12") + narrow(t, r+"3", "%i3")
	switch {
	case op == "red":
		return body + form + " [%d10], " + r + "3;\n"
	case strings.Contains(form, ".cas."):
		return body + form + " " + r + "1, [%d10], " + r + "2, " + r + "3;\n" + widen(t, "%o0", r+"1")
	}
	return body + form + " " + r + "1, [%d10], " + r + "3;\n" + widen(t, "%o0", r+"1")
}

// collectiveBodies returns code that executes an instruction of a warp or block in full warps. If
// the instruction has a membermask, half warps execute it, too.
func collectiveBodies(op, form string, list []string) map[string]string {
	halves := "setp.lt.u32 %p5, %lane, 16;\nselp.b32 %w10, 0xffff, 0xffff0000, %p5;\n"
	all := "mov.b32 %w10, -1;\n"
	both := func(body string) map[string]string {
		return map[string]string{"": all + body, "halves": halves + body}
	}
	t := list[len(list)-1]
	switch op {
	case "shfl":
		bodies := map[string]string{}
		clamp := "31"
		if list[1] == "up" {
			clamp = "0"
		}
		for _, c := range []string{clamp, "0x181f", "0x1c03", "0x1000"} {
			if list[1] == "up" && c != "0" {
				c = c[:4] + "00"
			}
			bodies["c "+c] = all + "cvt.u32.u64 %w2, %i0;\ncvt.u32.u64 %w3, %i1;\n" + form + " %w1|%p1, %w2, %w3, " + c + ", %w10;\ncvt.u64.u32 %o0, %w1;\nselp.b64 %o1, 1, 0, %p1;\n"
		}
		return bodies
	case "vote":
		if t == "b32" {
			return both(form + " %w1, %P, %w10;\ncvt.u64.u32 %o0, %w1;\n" + form + " %w1, !%P, %w10;\ncvt.u64.u32 %o1, %w1;\n")
		}
		return both(form + " %p1, %P, %w10;\nselp.b64 %o0, 1, 0, %p1;\nsetp.ge.u32 %p2, %self, 32;\n" + form + " %p1, %p2, %w10;\nselp.b64 %o1, 1, 0, %p1;\n")
	case "match":
		value := "and.b64 %d2, %i4, 3;\n" + narrow(t, bank(t)+"3", "%d2")
		same := "setp.lt.u32 %p3, %self, 64;\nselp.b64 %d2, 5, %d2, %p3;\n" + narrow(t, bank(t)+"3", "%d2")
		if list[0] == "any" {
			return both(value + form + " %w1, " + bank(t) + "3, %w10;\ncvt.u64.u32 %o0, %w1;\n")
		}
		return both(value + same + form + " %w1|%p1, " + bank(t) + "3, %w10;\ncvt.u64.u32 %o0, %w1;\nselp.b64 %o1, 1, 0, %p1;\n")
	case "redux":
		return both("cvt.u32.u64 %w2, %i0;\n" + form + " %w1, %w2, %w10;\ncvt.u64.u32 %o0, %w1;\n")
	case "activemask":
		return map[string]string{"": form + " %w1;\ncvt.u64.u32 %o0, %w1;\n"}
	case "elect":
		return both(form + " %w1|%p1, %w10;\ncvt.u64.u32 %o0, %w1;\nselp.b64 %o1, 1, 0, %p1;\n")
	}
	// Around a barrier, threads exchange values through shared memory.
	exchange := func(barrier string) string {
		return "mov.u64 %d10, sh;\nmul.wide.u32 %d11, %self, 8;\nadd.u64 %d12, %d10, %d11;\nst.shared.u64 [%d12], %i0;\n" +
			barrier + "xor.b32 %w2, %self, 5;\nmul.wide.u32 %d11, %w2, 8;\nadd.u64 %d12, %d10, %d11;\nld.shared.u64 %o0, [%d12];\n"
	}
	switch {
	case list[0] == "warp":
		return map[string]string{"": exchange(all + form + " %w10;\n")}
	case t == "u32":
		return map[string]string{"": form + " %w1, 1, %P;\ncvt.u64.u32 %o0, %w1;\n"}
	case t == "pred":
		return map[string]string{"": form + " %p1, 1, %P;\nselp.b64 %o0, 1, 0, %p1;\nsetp.ge.u32 %p2, %self, 0;\n" + form + " %p1, 1, %p2;\nselp.b64 %o1, 1, 0, %p1;\n"}
	}
	return map[string]string{"": exchange(form + " 2;\n"), "counted": exchange(form + " 3, 128;\n")}
}
