package cuda

import "bytes"

type fakePin struct{ size, flags uintptr }

// fakeAlias is host memory that the GPU can access. Its addresses differ from the host's unless
// they are unified, so that a test cannot confuse the two.
type fakeAlias struct{ lo, size uintptr }

// fakeRange is a range of reserved addresses. data is the mapped and accessible part.
type fakeRange struct {
	size  uintptr
	parts []fakePart
	data  []byte
}

type fakePart struct{ lo, size, handle uintptr }

func (f *fake) mappingCall(sym symbol, args []uintptr) Code {
	switch sym {
	case symMemHostRegister:
		lo, size := args[0], args[1]
		for at, p := range f.pinned {
			if lo < at+p.size && at < lo+size {
				return alreadyRegistered
			}
		}
		for at, b := range f.host {
			if lo < at+uintptr(len(b)) && at < lo+size {
				return alreadyRegistered
			}
		}
		f.pinned[lo] = fakePin{size, args[2]}
	case symMemHostUnregister:
		f.unlock(args[0], f.pinned[args[0]].size)
		return drop(f.pinned, args[0])
	case symMemHostGetDevicePointer:
		return f.alias(args[0], args[1])
	}
	return success
}

// alias returns the GPU's address of host memory that the GPU may access.
func (f *fake) alias(result, address uintptr) Code {
	var whole fakeAlias
	for lo, p := range f.pinned {
		if lo <= address && address < lo+p.size && p.flags&memHostDeviceMap != 0 {
			whole = fakeAlias{lo, p.size}
		}
	}
	for lo, b := range f.host {
		if lo <= address && address < lo+uintptr(len(b)) {
			whole = fakeAlias{lo, uintptr(len(b))}
		}
	}
	if whole.size == 0 {
		return invalidValue
	}
	for base, a := range f.aliases {
		if a == whole {
			put(result, base+address-a.lo)
			return success
		}
	}
	base := whole.lo
	if !f.unified {
		base = f.handle()
	}
	f.aliases[base] = whole
	put(result, base+address-whole.lo)
	return success
}

// unlock ends the page lock of host memory.
func (f *fake) unlock(lo, size uintptr) {
	f.checkUnused(lo, size)
	for base, a := range f.aliases {
		if a.lo == lo {
			delete(f.aliases, base)
		}
	}
}

func (f *fake) virtualCall(sym symbol, args []uintptr) Code {
	const granule = 2 << 20
	switch sym {
	case symMemGetAllocationGranularity:
		if !f.validProp(args[1]) || args[2] != granularityMinimum {
			return invalidValue
		}
		put(args[0], uintptr(granule))
	case symMemAddressReserve:
		if args[1]%granule != 0 || args[1] == 0 {
			return invalidValue
		}
		if args[1] > addrStep {
			return outOfMemory
		}
		base := f.handle()
		f.ranges[base] = &fakeRange{size: args[1]}
		put(args[0], base)
	case symMemAddressFree:
		r := f.ranges[args[0]]
		if r == nil || r.size != args[1] || len(r.parts) > 0 {
			return invalidValue
		}
		return drop(f.ranges, args[0])
	case symMemCreate:
		return f.createPiece(args[0], args[1], args[2])
	case symMemRelease:
		return drop(f.pieces, args[0])
	default:
		return f.mapCall(sym, args[0], args[1], args)
	}
	return success
}

// validProp reports whether the memory is requested on the current GPU.
func (f *fake) validProp(address uintptr) bool {
	p := *(*allocationProp)(at(address))
	return p == *newProp(location{memLocationDevice, int32(f.current[threadID()] & 0xf)})
}

func (f *fake) createPiece(result, size, prop uintptr) Code {
	if !f.validProp(prop) {
		return invalidValue
	}
	used := size
	for _, n := range f.pieces {
		used += n
	}
	if uint64(used) > f.gpus[f.current[threadID()]&0xf].free {
		return outOfMemory
	}
	h := f.handle()
	f.pieces[h] = size
	put(result, h)
	return success
}

// mapCall maps, unmaps or makes accessible parts of a range, in the order of addresses only.
func (f *fake) mapCall(sym symbol, lo, size uintptr, args []uintptr) Code {
	r := f.ranges[lo&^(addrStep-1)]
	if r == nil {
		return invalidValue
	}
	off, end := lo&(addrStep-1), uintptr(0)
	for _, p := range r.parts {
		end = p.lo + p.size
	}
	switch sym {
	case symMemMap:
		if off != end || off+size > r.size || f.pieces[args[3]] != size {
			return invalidValue
		}
		r.parts = append(r.parts, fakePart{off, size, args[3]})
	case symMemUnmap:
		if n := len(r.parts); n == 0 || r.parts[n-1].lo != off || r.parts[n-1].size != size {
			return invalidValue
		}
		r.parts = r.parts[:len(r.parts)-1]
		r.data = r.data[:min(off, uintptr(len(r.data)))]
	case symMemSetAccess:
		want := accessDesc{location{memLocationDevice, int32(f.current[threadID()] & 0xf)}, memAccessReadWrite}
		if off != uintptr(len(r.data)) || off+size != end || *(*accessDesc)(at(args[2])) != want || args[3] != 1 {
			return invalidValue
		}
		r.data = append(r.data, bytes.Repeat([]byte{0xcd}, int(size))...)
	}
	return success
}
