package sim

// This file has litmus tests of system scope, alone and mixed with smaller scopes, and of 32-bit
// words. On one device, the scopes of the system and of the GPU contain the same threads, so any
// mix of the two orders accesses.

const mpWeird, sbWeird, iriwWeird = "0 0|1 0", "0 0|0 0", "0 0|0 0|1 0|1 0"

// messagePassing returns the test MP, with the given code to write and to read the flag.
func messagePassing(name, write, read string, allowed bool) litmus {
	return litmus{name: "MP " + name, threads: []string{
		"st.global.u64 [x], 1; " + write, read + " ld.global.u64 %rd11, [x];",
	}, weird: mpWeird, allowed: allowed}
}

// storeBuffering returns the test SB, with the given code between the store and the load.
func storeBuffering(name, first, second string, allowed bool) litmus {
	return litmus{name: "SB " + name, threads: []string{
		"st.relaxed.sys.global.u64 [x], 1; " + first + " ld.relaxed.sys.global.u64 %rd10, [y];",
		"st.relaxed.gpu.global.u64 [y], 1; " + second + " ld.relaxed.gpu.global.u64 %rd10, [x];",
	}, weird: sbWeird, allowed: allowed}
}

// independentReads returns the test IRIW, with loads of the given order and the given code between
// them.
func independentReads(name, order, first, second string, allowed bool) litmus {
	return litmus{name: "IRIW " + name, threads: []string{
		"st.relaxed.sys.global.u64 [x], 1;",
		"st.relaxed.gpu.global.u64 [y], 1;",
		"ld." + order + ".sys.global.u64 %rd10, [x]; " + first + " ld." + order + ".sys.global.u64 %rd11, [y];",
		"ld." + order + ".gpu.global.u64 %rd10, [y]; " + second + " ld." + order + ".gpu.global.u64 %rd11, [x];",
	}, weird: iriwWeird, allowed: allowed}
}

var systemTests = []litmus{
	messagePassing("relaxed.sys", "st.relaxed.sys.global.u64 [y], 1;", "ld.relaxed.sys.global.u64 %rd10, [y];", true),
	messagePassing("release.sys, acquire.sys", "st.release.sys.global.u64 [y], 1;", "ld.acquire.sys.global.u64 %rd10, [y];", false),
	messagePassing("release.sys, acquire.gpu", "st.release.sys.global.u64 [y], 1;", "ld.acquire.gpu.global.u64 %rd10, [y];", false),
	messagePassing("release.gpu, acquire.sys", "st.release.gpu.global.u64 [y], 1;", "ld.acquire.sys.global.u64 %rd10, [y];", false),
	messagePassing("release.sys, relaxed.sys", "st.release.sys.global.u64 [y], 1;", "ld.relaxed.sys.global.u64 %rd10, [y];", true),
	messagePassing("release.sys, acquire.cta", "st.release.sys.global.u64 [y], 1;", "ld.acquire.cta.global.u64 %rd10, [y];", true),
	messagePassing("release.cta, acquire.sys", "st.release.cta.global.u64 [y], 1;", "ld.acquire.sys.global.u64 %rd10, [y];", true),
	messagePassing("fence.sys, fence.gpu", "fence.acq_rel.sys; st.relaxed.gpu.global.u64 [y], 1;",
		"ld.relaxed.sys.global.u64 %rd10, [y]; fence.acq_rel.gpu;", false),
	messagePassing("fence.sys, fence.cta", "fence.acq_rel.sys; st.relaxed.sys.global.u64 [y], 1;",
		"ld.relaxed.sys.global.u64 %rd10, [y]; fence.acq_rel.cta;", true),
	messagePassing("volatile without fences", "st.volatile.global.u64 [y], 1;", "ld.volatile.global.u64 %rd10, [y];", true),
	messagePassing("volatile with fence.sc.sys", "fence.sc.sys; st.volatile.global.u64 [y], 1;", "ld.volatile.global.u64 %rd10, [y]; fence.sc.sys;", false),
	messagePassing("atom.release.sys, atom.acquire.gpu", "atom.release.sys.global.exch.b64 %rd3, [y], 1;", "atom.acquire.gpu.global.add.u64 %rd10, [y], 0;", false),
	messagePassing("red.release.sys, ld.acquire.sys", "red.release.sys.global.add.u64 [y], 1;", "ld.acquire.sys.global.u64 %rd10, [y];", false),
	messagePassing("32 bits, release.gpu, acquire.gpu", "st.release.gpu.global.b32 [y], 1;", "ld.acquire.gpu.global.b32 %r20, [y]; cvt.u64.u32 %rd10, %r20;", false),
	messagePassing("32 bits, cas.release.sys, cas.acquire.sys", "atom.release.sys.global.cas.b32 %r20, [y], 0, 1;",
		"atom.acquire.sys.global.cas.b32 %r20, [y], 7, 7; cvt.u64.u32 %rd10, %r20;", false),
	messagePassing("32 bits, relaxed", "st.relaxed.sys.global.b32 [y], 1;", "ld.relaxed.gpu.global.b32 %r20, [y]; cvt.u64.u32 %rd10, %r20;", true),

	storeBuffering("relaxed", "", "", true),
	storeBuffering("fence.acq_rel.sys", "fence.acq_rel.sys;", "fence.acq_rel.sys;", true),
	storeBuffering("fence.sc.sys", "fence.sc.sys;", "fence.sc.sys;", false),
	storeBuffering("fence.sc.sys, fence.sc.gpu", "fence.sc.sys;", "fence.sc.gpu;", false),
	storeBuffering("fence.sc.sys, fence.sc.cta", "fence.sc.sys;", "fence.sc.cta;", true),
	storeBuffering("membar.sys, membar.gl", "membar.sys;", "membar.gl;", false),

	independentReads("acquire", "acquire", "", "", true),
	independentReads("fence.acq_rel.sys", "relaxed", "fence.acq_rel.sys;", "fence.acq_rel.sys;", true),
	independentReads("fence.sc.sys", "relaxed", "fence.sc.sys;", "fence.sc.sys;", false),
	independentReads("fence.sc.sys, fence.sc.gpu", "relaxed", "fence.sc.sys;", "fence.sc.gpu;", false),
	independentReads("fence.sc.sys, fence.sc.cta", "relaxed", "fence.sc.sys;", "fence.sc.cta;", true),

	{name: "atomics of system and device lose no update", threads: []string{
		"atom.relaxed.sys.global.add.u64 %rd10, [x], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [x], 1;",
	}, weird: "0 0|0 0"},
	{name: "atomics of system and another block lose updates", threads: []string{
		"atom.relaxed.sys.global.add.u64 %rd10, [x], 1;",
		"atom.relaxed.cta.global.add.u64 %rd10, [x], 1;",
	}, weird: "0 0|0 0", allowed: true},
	{name: "CoRR of system and device", threads: []string{
		"st.relaxed.sys.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; ld.relaxed.sys.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "WRC of system and device", threads: []string{
		"st.relaxed.sys.global.u64 [x], 1;",
		"ld.relaxed.gpu.global.u64 %rd10, [x]; st.release.sys.global.u64 [y], 1;",
		"ld.acquire.gpu.global.u64 %rd10, [y]; ld.relaxed.sys.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|1 0"},
	{name: "MP through another's exchange at system scope", threads: []string{
		"st.global.u64 [x], 1; st.release.sys.global.u64 [y], 1;",
		"atom.relaxed.gpu.global.add.u64 %rd10, [y], 1;",
		"ld.acquire.sys.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|2 0"},
	{name: "MP within a block at system and block scope", block: true, threads: []string{
		"st.global.u64 [x], 1; st.release.cta.global.u64 [y], 1;",
		"ld.acquire.sys.global.u64 %rd10, [y]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0"},
	{name: "SB within a block with fences of system and block", block: true, threads: []string{
		"st.relaxed.sys.global.u64 [x], 1; fence.sc.sys; ld.relaxed.sys.global.u64 %rd10, [y];",
		"st.relaxed.cta.global.u64 [y], 1; fence.sc.cta; ld.relaxed.cta.global.u64 %rd10, [x];",
	}, weird: "0 0|0 0"},
	{name: "causality from device to system", pairs: true, threads: []string{
		"st.global.u64 [x], 1; st.release.cta.global.u64 [y], 1;",
		"ld.acquire.cta.global.u64 %rd10, [y]; st.release.sys.global.u64 [z], 1;",
		"",
		"ld.acquire.gpu.global.u64 %rd10, [z]; ld.global.u64 %rd11, [x];",
	}, weird: "0 0|1 0|0 0|1 0"},
}
