package cuda

import (
	"encoding/binary"
	"math"
)

// fakeStream is a queue of operations that have not been executed.
type fakeStream struct {
	ctx   uintptr
	queue []fakeOp
}

// fakeOp is an operation. It can run once its event has reached the marker with the number in
// after.
type fakeOp struct {
	run   func()
	event *fakeEvent
	after int
	host  span // page-locked memory that it reads or writes
}

// fakeEvent holds the number of its submitted markers, and the last one reached.
type fakeEvent struct {
	submitted, reached int
	time               int
}

// step executes up to three operations of random streams.
func (f *fake) step() {
	for range f.rng.IntN(4) {
		if !f.doOne() {
			return
		}
	}
}

// doOne executes the first operation of a random stream, if any stream can proceed.
func (f *fake) doOne() bool {
	var ready []*fakeStream
	for _, s := range f.streams {
		if len(s.queue) > 0 && (s.queue[0].event == nil || s.queue[0].event.reached >= s.queue[0].after) {
			ready = append(ready, s)
		}
	}
	if len(ready) == 0 || f.sticky != success {
		return false
	}
	s := ready[f.rng.IntN(len(ready))]
	op := s.queue[0]
	s.queue = s.queue[1:]
	f.clock++
	if op.run != nil {
		op.run()
	}
	return true
}

func (f *fake) drain() {
	for f.doOne() {
	}
}

// checkUnused records a misuse if host memory is freed while work still uses it.
func (f *fake) checkUnused(lo, size uintptr) {
	for _, s := range f.streams {
		for _, op := range s.queue {
			if op.host.lo < lo+size && lo < op.host.hi && f.sticky == success {
				f.fault("host memory freed while a copy uses it")
			}
		}
	}
}

// device returns device memory. An address outside makes the context unusable.
func (f *fake) device(address, size uintptr) []byte {
	base := address &^ (addrStep - 1)
	b := f.memory[base]
	if r := f.ranges[base]; r != nil {
		b = r.data
	}
	if a, ok := f.aliases[base]; ok {
		b = hostBytes(a.lo, a.size)
	}
	for lo, a := range f.aliases {
		if f.unified && lo <= address && address < lo+a.size {
			base, b = lo, hostBytes(lo, a.size)
		}
	}
	if address-base > uintptr(len(b)) || size > uintptr(len(b))-(address-base) {
		f.sticky = illegalAddress
		return nil
	}
	return b[address-base:][:size]
}

// attribute returns an attribute of the memory at an address.
func (f *fake) attribute(result, attribute, address uintptr) Code {
	base := address &^ (addrStep - 1)
	size := uintptr(len(f.memory[base]))
	if r := f.ranges[base]; r != nil {
		size = uintptr(len(r.data))
	}
	alias, isHost := f.aliases[base]
	if isHost {
		size = alias.size
	}
	if address-base >= size {
		return invalidValue
	}
	switch {
	case attribute == pointerDeviceOrdinal:
		put(result, f.owner[base])
	case isHost:
		put(result, int32(memoryTypeHost))
	default:
		put(result, int32(2)) // CU_MEMORYTYPE_DEVICE
	}
	return success
}

func (f *fake) pageLocked(address, size uintptr) bool {
	for lo, b := range f.host {
		if lo <= address && address+size <= lo+uintptr(len(b)) {
			return true
		}
	}
	for lo, p := range f.pinned {
		if lo <= address && address+size <= lo+p.size {
			return true
		}
	}
	return false
}

func (f *fake) submit(handle uintptr, op fakeOp) Code {
	s := f.streams[handle]
	if s == nil || s.ctx != f.current[threadID()] {
		return invalidHandle
	}
	if op.host.lo != 0 && !f.pageLocked(op.host.lo, op.host.hi-op.host.lo) {
		f.fault("asynchronous copy of memory that is not page-locked")
	}
	s.queue = append(s.queue, op)
	for len(s.queue) > maxQueue && f.doOne() {
	}
	return success
}

// maxQueue is the queue length at which a submission waits for progress.
const maxQueue = 256

func (f *fake) streamCall(sym symbol, args []uintptr) Code {
	switch sym {
	case symStreamCreate:
		h := f.handle()
		f.streams[h] = &fakeStream{ctx: f.current[threadID()]}
		put(args[0], h)
	case symStreamDestroy:
		if s := f.streams[args[0]]; s != nil && len(s.queue) > 0 && f.sticky == success {
			f.fault("stream destroyed with work in it")
		}
		return drop(f.streams, args[0])
	case symStreamQuery:
		f.step()
		return f.queried(len(f.streams[args[0]].queue) == 0)
	case symStreamSynchronize:
		for f.sticky == success && len(f.streams[args[0]].queue) > 0 {
			f.doOne()
		}
		return f.sticky
	case symMemcpyHtoDAsync, symMemcpyDtoHAsync, symMemcpyDtoDAsync, symMemcpyPeerAsync, symMemsetD32Async:
		return f.copyCall(sym, args)
	case symLaunchKernel:
		return f.launchCall(args)
	default:
		return f.eventCall(sym, args)
	}
	return success
}

// queried returns the result code of a query for completion.
func (f *fake) queried(done bool) Code {
	switch {
	case f.sticky != success:
		return f.sticky
	case done:
		return success
	}
	return notReady
}

func (f *fake) copyCall(sym symbol, args []uintptr) Code {
	to, from, size, stream := args[0], args[1], args[2], args[3]
	switch sym {
	case symMemcpyPeerAsync: // to, its context, from, its context, size, stream
		from, size, stream := args[2], args[4], args[5]
		if f.owner[to&^(addrStep-1)] != int32(args[1]&0xf) || f.owner[from&^(addrStep-1)] != int32(args[3]&0xf) {
			return invalidValue
		}
		return f.submit(stream, fakeOp{run: func() { copy(f.device(to, size), f.device(from, size)) }})
	case symMemcpyHtoDAsync:
		return f.submit(stream, fakeOp{host: span{lo: from, hi: from + size}, run: func() {
			copy(f.device(to, size), hostBytes(from, size))
		}})
	case symMemcpyDtoHAsync:
		return f.submit(stream, fakeOp{host: span{lo: to, hi: to + size}, run: func() {
			copy(hostBytes(to, size), f.device(from, size))
		}})
	case symMemcpyDtoDAsync:
		return f.submit(stream, fakeOp{run: func() { copy(f.device(to, size), f.device(from, size)) }})
	default: // memset: to, pattern, count, stream
		return f.submit(stream, fakeOp{run: func() {
			b := f.device(to, 4*size)
			for i := 0; i < len(b); i += 4 {
				binary.LittleEndian.PutUint32(b[i:], uint32(from))
			}
		}})
	}
}

// launchCall submits one of the kernels of the tests. It reads the parameters at once, as the
// driver does.
func (f *fake) launchCall(args []uintptr) Code {
	name, ok := f.kernels[args[0]]
	if !ok {
		return invalidHandle
	}
	if args[4]*args[5]*args[6] > 1024 {
		return invalidValue
	}
	var params addParams
	extra := *(*[5]uintptr)(at(args[10]))
	if args[9] != 0 || extra[0] != launchParamBufferPointer || extra[2] != launchParamBufferSize || extra[4] != launchParamEnd {
		return invalidValue
	}
	copy(params.bytes(), hostBytes(extra[1], *(*uintptr)(at(extra[3]))))
	return f.submit(args[8], fakeOp{run: func() {
		f.launch = append(f.launch, name)
		switch name {
		case "add":
			a, b, c := f.device(uintptr(params.A), 4*uintptr(params.N)), f.device(uintptr(params.B), 4*uintptr(params.N)), f.device(uintptr(params.C), 4*uintptr(params.N))
			for i := 0; i < len(c); i += 4 {
				binary.LittleEndian.PutUint32(c[i:], binary.LittleEndian.Uint32(a[i:])+binary.LittleEndian.Uint32(b[i:]))
			}
		case "store": // parameters: a number, an address and a byte
			to := f.device(uintptr(params.B), 8)
			binary.LittleEndian.PutUint32(to, uint32(params.A))
			binary.LittleEndian.PutUint32(to[4:], uint32(uint8(params.C)))
		case "wild":
			f.sticky = illegalAddress
		}
	}})
}

func (f *fake) eventCall(sym symbol, args []uintptr) Code {
	if sym == symEventCreate {
		h := f.handle()
		f.events[h] = &fakeEvent{}
		put(args[0], h)
		return success
	}
	first := map[symbol]int{symStreamWaitEvent: 1, symEventElapsedTime: 1}[sym]
	e := f.events[args[first]]
	if e == nil {
		return invalidHandle
	}
	switch sym {
	case symEventDestroy:
		return drop(f.events, args[0])
	case symEventRecord:
		e.submitted++
		n := e.submitted
		return f.submit(args[1], fakeOp{run: func() { e.reached, e.time = max(e.reached, n), f.clock }})
	case symStreamWaitEvent:
		return f.submit(args[0], fakeOp{event: e, after: e.submitted})
	case symEventQuery:
		f.step()
		return f.queried(e.reached == e.submitted)
	default: // symEventElapsedTime
		last := f.events[args[2]]
		switch {
		case last == nil || e.submitted == 0 || last.submitted == 0:
			return invalidHandle
		case e.reached < e.submitted || last.reached < last.submitted:
			return notReady
		}
		put(args[0], math.Float32bits(float32(last.time-e.time)/1000)) // 1 us each
	}
	return success
}
