package sim

// Special registers. Those that stay the same while a warp runs are rows of
// its register file; clocks are read.

var specialRegisters = map[string]func(w *warp, lane int) uint64{
	"%laneid":      func(w *warp, lane int) uint64 { return uint64(lane) },
	"%warpid":      func(w *warp, lane int) uint64 { return uint64(w.index) },
	"%nwarpid":     func(w *warp, lane int) uint64 { return maxThreads / warpSize },
	"%smid":        func(w *warp, lane int) uint64 { return 0 },
	"%nsmid":       func(w *warp, lane int) uint64 { return units },
	"%gridid":      func(w *warp, lane int) uint64 { return uint64(w.launch.number) },
	"%lanemask_eq": func(w *warp, lane int) uint64 { return 1 << lane },
	"%lanemask_lt": func(w *warp, lane int) uint64 { return 1<<lane - 1 },
	"%lanemask_le": func(w *warp, lane int) uint64 { return 2<<lane - 1 },
	"%lanemask_ge": func(w *warp, lane int) uint64 { return uint64(fullMask << lane) },
	"%lanemask_gt": func(w *warp, lane int) uint64 { return uint64(fullMask << lane << 1) },

	"%tid.x":    func(w *warp, lane int) uint64 { return w.thread(lane, 0) },
	"%tid.y":    func(w *warp, lane int) uint64 { return w.thread(lane, 1) },
	"%tid.z":    func(w *warp, lane int) uint64 { return w.thread(lane, 2) },
	"%ntid.x":   func(w *warp, _ int) uint64 { return uint64(w.launch.blockDim[0]) },
	"%ntid.y":   func(w *warp, _ int) uint64 { return uint64(w.launch.blockDim[1]) },
	"%ntid.z":   func(w *warp, _ int) uint64 { return uint64(w.launch.blockDim[2]) },
	"%ctaid.x":  func(w *warp, _ int) uint64 { return uint64(w.block.at[0]) },
	"%ctaid.y":  func(w *warp, _ int) uint64 { return uint64(w.block.at[1]) },
	"%ctaid.z":  func(w *warp, _ int) uint64 { return uint64(w.block.at[2]) },
	"%nctaid.x": func(w *warp, _ int) uint64 { return uint64(w.launch.grid[0]) },
	"%nctaid.y": func(w *warp, _ int) uint64 { return uint64(w.launch.grid[1]) },
	"%nctaid.z": func(w *warp, _ int) uint64 { return uint64(w.launch.grid[2]) },
}

// thread is a coordinate of a lane's thread in its block.
func (w *warp) thread(lane, axis int) uint64 {
	n := w.index*warpSize + lane
	d := w.launch.blockDim
	switch axis {
	case 0:
		return uint64(n % d[0])
	case 1:
		return uint64(n / d[0] % d[1])
	}
	return uint64(n / (d[0] * d[1]))
}

// The clock counts executed warp instructions: it moves on with every one,
// the same way in every run of the same seed.
var clocks = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return w.now() },
	"%clock_hi":       func(w *warp) uint64 { return w.now() >> 32 },
	"%clock64":        func(w *warp) uint64 { return w.now() },
	"%globaltimer":    func(w *warp) uint64 { return w.now() },
	"%globaltimer_lo": func(w *warp) uint64 { return w.now() },
	"%globaltimer_hi": func(w *warp) uint64 { return w.now() >> 32 },
}

// now is the device's clock.
func (w *warp) now() uint64 { return w.launch.start + w.launch.steps }
