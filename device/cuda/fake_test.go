package cuda

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// fake is a driver in Go, deterministic for a seed and a single caller. It is late on purpose: it
// executes submitted work only when a caller polls for completion, a few operations at a time, in a
// random order of streams. A slot or buffer reused too early therefore has wrong bytes.
//
// It checks what a driver checks (contexts, handles, bounds), counts calls and unreleased
// resources, and fails on request.
type fake struct {
	mu       sync.Mutex
	rng      *rand.Rand
	gpus     []fakeGPU
	missing  map[string]bool // names missing from the library
	initCode Code
	version  int

	current map[int]uintptr // thread -> context
	retains map[uintptr]int // context -> count
	next    uintptr         // handles and device addresses
	memory  map[uintptr][]byte
	owner   map[uintptr]int32 // GPU of memory
	host    map[uintptr][]byte
	pinned  map[uintptr]fakePin // registered, by address
	aliases map[uintptr]fakeAlias
	unified bool // GPUs use the host's addresses
	ranges  map[uintptr]*fakeRange
	pieces  map[uintptr]uintptr // memory of ranges: handle -> size
	streams map[uintptr]*fakeStream
	events  map[uintptr]*fakeEvent
	modules map[uintptr]string // PTX text
	kernels map[uintptr]string // names

	linked bool                // GPUs can read each other's memory
	links  map[[2]uintptr]bool // contexts: the first reads the memory of the second

	calls  [numSymbols]int
	launch []string // names of kernels, in order of execution
	faults []string // misuse that a real driver would not report
	sticky Code
	clock  int // number of executed operations
	// fail returns the code of call n of a function, from 0. After a sticky code all later calls
	// fail.
	fail func(sym symbol, n int) Code
}

type fakeGPU struct {
	name        string
	arch        int
	free, total uint64
}

// addrStep is the distance between the addresses of two allocations. It is so large that a wrong
// address hits no memory.
const addrStep = 1 << 40

func newFake() *fake {
	return &fake{
		rng:     rand.New(rand.NewPCG(1, 2)),
		gpus:    []fakeGPU{{"Fake H200", 90, 6 << 30, 8 << 30}, {"Fake A100", 80, 1 << 30, 2 << 30}, {"Fake V100", 70, 1 << 30, 1 << 30}},
		version: 13000,
		linked:  true,
		links:   map[[2]uintptr]bool{},
		current: map[int]uintptr{},
		retains: map[uintptr]int{},
		next:    addrStep,
		memory:  map[uintptr][]byte{},
		owner:   map[uintptr]int32{},
		host:    map[uintptr][]byte{},
		pinned:  map[uintptr]fakePin{},
		aliases: map[uintptr]fakeAlias{},
		ranges:  map[uintptr]*fakeRange{},
		pieces:  map[uintptr]uintptr{},
		streams: map[uintptr]*fakeStream{},
		events:  map[uintptr]*fakeEvent{},
		modules: map[uintptr]string{},
		kernels: map[uintptr]string{},
	}
}

func (f *fake) driver(t testing.TB) *driver {
	t.Helper()
	drv, err := newDriver(f)
	if err != nil {
		t.Fatal(err)
	}
	return drv
}

// open opens the first GPU. At the end of the test it checks that no resource is left.
func (f *fake) open(t testing.TB) *Device {
	t.Helper()
	d, err := f.driver(t).open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		f.checkEmpty(t)
	})
	return d
}

// checkEmpty fails the test for each unreleased resource, and for each misuse.
func (f *fake) checkEmpty(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	retained := 0
	for _, n := range f.retains {
		retained += n
	}
	for what, n := range map[string]int{
		"buffers": len(f.memory), "host blocks": len(f.host), "registrations": len(f.pinned), "streams": len(f.streams),
		"ranges": len(f.ranges), "pieces of memory": len(f.pieces),
		"events": len(f.events), "modules": len(f.modules), "retained contexts": retained,
	} {
		if n != 0 {
			t.Errorf("the driver still holds %d %s", n, what)
		}
	}
	for _, s := range f.faults {
		t.Error("misuse: " + s)
	}
}

// lookup, invoke and path implement library.

func (f *fake) lookup(name string) uintptr {
	if f.missing[name] {
		return 0
	}
	for sym, info := range symbols {
		if info.export() == name {
			return uintptr(sym) + 1
		}
	}
	if name == "cuGetProcAddress_v2" {
		return uintptr(numSymbols) + 1
	}
	return 0
}

func (f *fake) path() string { return "libfake.so.1" }

func (f *fake) invoke(fn uintptr, args []uintptr) uintptr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if symbol(fn-1) == numSymbols {
		return uintptr(f.getProcAddress(args))
	}
	return uintptr(f.call(symbol(fn-1), args))
}

// at converts an address to a pointer. The caller keeps the memory alive.
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func put[T any](address uintptr, v T) { *(*T)(at(address)) = v }

func hostBytes(address, n uintptr) []byte { return unsafe.Slice((*byte)(at(address)), n) }

func cString(address uintptr) string {
	n := uintptr(0)
	for *(*byte)(at(address + n)) != 0 {
		n++
	}
	return string(hostBytes(address, n))
}

// getProcAddress finds functions by their plain names if the requested version has them.
func (f *fake) getProcAddress(args []uintptr) Code {
	name := cString(args[0])
	put(args[1], uintptr(0))
	for sym, info := range symbols {
		if info.name == name && !f.missing[name] && int(args[2]) >= info.since && f.version >= info.since {
			put(args[1], uintptr(sym)+1)
		}
	}
	return success
}

// giveBack lists the functions that free a resource. They free it even if they are made to fail,
// because the behavior of a real driver is unknown.
var giveBack = map[symbol]bool{
	symMemFree: true, symMemFreeAsync: true, symMemFreeHost: true, symMemHostUnregister: true, symStreamDestroy: true,
	symMemUnmap: true, symMemRelease: true, symMemAddressFree: true, symEventDestroy: true, symModuleUnload: true, symPrimaryCtxRelease: true,
}

// noContext lists the functions that work without a current context.
var noContext = map[symbol]bool{
	symInit: true, symDriverGetVersion: true, symGetErrorName: true, symGetErrorString: true, symDeviceGetCount: true,
	symDeviceGet: true, symDeviceGetName: true, symDeviceGetAttribute: true,
	symPrimaryCtxRetain: true, symPrimaryCtxRelease: true, symCtxSetCurrent: true,
}

func (f *fake) call(sym symbol, args []uintptr) Code {
	n := f.calls[sym]
	f.calls[sym]++
	code := f.sticky
	if f.fail != nil && code == success {
		if code = f.fail(sym, n); code.sticky() {
			f.sticky = code
		}
	}
	if noContext[sym] && f.sticky != success && sym != symCtxSetCurrent {
		code = success // these work even if the context is lost
	}
	if code != success && (!giveBack[sym] || code == notSupported) {
		return code
	}
	if ctx := f.current[threadID()]; !noContext[sym] && f.retains[ctx] == 0 && code == success {
		return 201 // CUDA_ERROR_INVALID_CONTEXT
	}
	if c := f.dispatch(sym, args); code == success {
		return c
	}
	return code
}

func (f *fake) handle() uintptr {
	f.next += addrStep
	return f.next
}

func drop[V any](table map[uintptr]V, handle uintptr) Code {
	if _, ok := table[handle]; !ok {
		return invalidHandle
	}
	delete(table, handle)
	return success
}

func (f *fake) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

func (f *fake) dispatch(sym symbol, args []uintptr) Code {
	switch sym {
	case symInit:
		return f.initCode
	case symDriverGetVersion:
		put(args[0], int32(f.version))
	case symGetErrorName:
		put(args[1], unsafe.Pointer(unsafe.StringData(fmt.Sprintf("FAKE_ERROR_%d\x00", args[0]))))
	case symGetErrorString:
		put(args[1], unsafe.Pointer(unsafe.StringData("as the test wants it\x00")))
	case symDeviceGetCount, symDeviceGet, symDeviceGetName, symDeviceGetAttribute,
		symPrimaryCtxRetain, symPrimaryCtxRelease, symCtxSetCurrent, symDeviceCanAccessPeer, symCtxEnablePeerAccess:
		return f.gpuCall(sym, args)
	case symModuleLoadDataEx, symModuleUnload, symModuleGetFunction, symFuncGetParamInfo:
		return f.moduleCall(sym, args)
	case symMemGetInfo, symMemAlloc, symMemFree, symMemFreeAsync, symMemHostAlloc, symMemFreeHost:
		return f.memoryCall(sym, args)
	case symMemHostRegister, symMemHostUnregister, symMemHostGetDevicePointer:
		return f.mappingCall(sym, args)
	case symPointerGetAttribute:
		return f.attribute(args[0], args[1], args[2])
	case symMemGetAllocationGranularity, symMemAddressReserve, symMemAddressFree, symMemCreate, symMemRelease,
		symMemMap, symMemUnmap, symMemSetAccess:
		return f.virtualCall(sym, args)
	default:
		return f.streamCall(sym, args)
	}
	return success
}

func (f *fake) gpuCall(sym symbol, args []uintptr) Code {
	const firstContext = 0x1000
	switch sym {
	case symDeviceGetCount:
		put(args[0], int32(len(f.gpus)))
	case symDeviceGet:
		if int(args[1]) >= len(f.gpus) {
			return invalidDevice
		}
		put(args[0], int32(args[1]))
	case symDeviceGetName:
		copy(hostBytes(args[0], args[1]), f.gpus[args[2]].name+"\x00")
	case symDeviceGetAttribute:
		gpu := f.gpus[args[2]]
		put(args[0], map[uintptr]int32{
			attrCapabilityMajor: int32(gpu.arch / 10), attrCapabilityMinor: int32(gpu.arch % 10),
			attrMultiprocessors: 132, attrL2CacheSize: 50 << 20,
		}[args[1]])
	case symPrimaryCtxRetain:
		ctx := firstContext + args[1]
		f.retains[ctx]++
		put(args[0], ctx)
	case symPrimaryCtxRelease:
		f.retains[firstContext+args[0]]--
	case symCtxSetCurrent:
		f.current[threadID()] = args[0]
	case symDeviceCanAccessPeer:
		put(args[0], map[bool]int32{true: 1}[f.linked])
	case symCtxEnablePeerAccess:
		link := [2]uintptr{f.current[threadID()], args[0]}
		if f.links[link] || link[0] == link[1] {
			return peerAccessEnabled
		}
		f.links[link] = true
	}
	return success
}

func (f *fake) memoryCall(sym symbol, args []uintptr) Code {
	gpu := f.gpus[f.current[threadID()]&0xf]
	switch sym {
	case symMemGetInfo:
		put(args[0], gpu.free)
		put(args[1], gpu.total)
	case symMemAlloc:
		if uint64(args[1]) > gpu.free {
			return outOfMemory
		}
		address := f.handle()
		f.memory[address] = make([]byte, args[1])
		f.owner[address] = int32(f.current[threadID()] & 0xf)
		put(args[0], address)
	case symMemFree:
		f.drain() // as the real one does
		return drop(f.memory, args[0])
	case symMemFreeAsync: // not ordered with other streams
		if f.streams[args[1]] == nil {
			return invalidHandle
		}
		return drop(f.memory, args[0])
	case symMemHostAlloc:
		if args[2] != memHostPortable|memHostDeviceMap {
			return invalidValue
		}
		b := make([]byte, args[1]+device.MapAlign)
		b = b[-address(b)&(device.MapAlign-1):][:args[1]]
		f.host[address(b)] = b
		put(args[0], unsafe.Pointer(unsafe.SliceData(b)))
	case symMemFreeHost:
		f.unlock(args[0], uintptr(len(f.host[args[0]])))
		return drop(f.host, args[0])
	}
	return success
}

// fakeLog is the message of the fake compiler for text that contains the word "bad".
const fakeLog = "ptxas application ptx input, line 1; fatal: bad text"

func (f *fake) moduleCall(sym symbol, args []uintptr) Code {
	switch sym {
	case symModuleLoadDataEx:
		text := cString(args[1])
		switch {
		case strings.Contains(text, "bad"):
			values := unsafe.Slice((*uintptr)(at(args[4])), args[2])
			copy(hostBytes(values[0], values[1]), fakeLog+"\x00")
			return invalidPTX
		case strings.Contains(text, "newest"):
			return unsupportedPTX
		}
		m := f.handle()
		f.modules[m] = text
		put(args[0], m)
	case symModuleUnload:
		return drop(f.modules, args[0])
	case symModuleGetFunction:
		name := cString(args[2])
		if found, _ := entries(f.modules[args[1]]); found[name] == nil {
			return notFound
		}
		k := f.handle()
		f.kernels[k] = name
		put(args[0], k)
	case symFuncGetParamInfo:
		sizes := f.sizesOf(f.kernels[args[0]])
		if int(args[1]) >= len(sizes) {
			return invalidValue
		}
		put(args[2], uintptr(0))
		put(args[3], uintptr(sizes[args[1]]))
	}
	return success
}

func (f *fake) sizesOf(kernel string) []int {
	for _, text := range f.modules {
		if found, err := entries(text); err == nil && found[kernel] != nil {
			return found[kernel]
		}
	}
	return nil
}
