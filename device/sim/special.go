package sim

// This file implements special registers. Those that are constant while a warp runs are rows of its
// register file. Clocks are read when they are used.

var specialRegisters = map[string]func(w *warp, row *lanes){
	"%laneid":      perLane(func(lane int) uint64 { return uint64(lane) }),
	"%warpid":      uniform(func(w *warp) uint64 { return uint64(w.index) }),
	"%nwarpid":     uniform(func(*warp) uint64 { return maxThreads / warpSize }),
	"%smid":        uniform(func(*warp) uint64 { return 0 }),
	"%nsmid":       uniform(func(*warp) uint64 { return units }),
	"%gridid":      uniform(func(w *warp) uint64 { return uint64(w.launch.number) }),
	"%lanemask_eq": perLane(func(lane int) uint64 { return 1 << lane }),
	"%lanemask_lt": perLane(func(lane int) uint64 { return 1<<lane - 1 }),
	"%lanemask_le": perLane(func(lane int) uint64 { return 2<<lane - 1 }),
	"%lanemask_ge": perLane(func(lane int) uint64 { return uint64(fullMask << lane) }),
	"%lanemask_gt": perLane(func(lane int) uint64 { return uint64(fullMask << lane << 1) }),

	"%tid.x":    coordinate(0),
	"%tid.y":    coordinate(1),
	"%tid.z":    coordinate(2),
	"%ntid.x":   uniform(func(w *warp) uint64 { return uint64(w.launch.blockDim[0]) }),
	"%ntid.y":   uniform(func(w *warp) uint64 { return uint64(w.launch.blockDim[1]) }),
	"%ntid.z":   uniform(func(w *warp) uint64 { return uint64(w.launch.blockDim[2]) }),
	"%ctaid.x":  uniform(func(w *warp) uint64 { return uint64(w.block.at[0]) }),
	"%ctaid.y":  uniform(func(w *warp) uint64 { return uint64(w.block.at[1]) }),
	"%ctaid.z":  uniform(func(w *warp) uint64 { return uint64(w.block.at[2]) }),
	"%nctaid.x": uniform(func(w *warp) uint64 { return uint64(w.launch.grid[0]) }),
	"%nctaid.y": uniform(func(w *warp) uint64 { return uint64(w.launch.grid[1]) }),
	"%nctaid.z": uniform(func(w *warp) uint64 { return uint64(w.launch.grid[2]) }),
}

// uniform returns a function that fills a row with the same value in all lanes of a warp.
func uniform(of func(w *warp) uint64) func(w *warp, row *lanes) {
	return func(w *warp, row *lanes) {
		v := of(w)
		for i := range row {
			row[i] = v
		}
	}
}

// perLane returns a function that fills a row with values that depend on the lane only.
func perLane(of func(lane int) uint64) func(w *warp, row *lanes) {
	var all lanes
	for i := range all {
		all[i] = of(i)
	}
	return func(_ *warp, row *lanes) { *row = all }
}

// coordinate returns a function that fills a row with one coordinate of each thread in its block.
func coordinate(axis int) func(w *warp, row *lanes) {
	return func(w *warp, row *lanes) {
		d := w.launch.blockDim
		n := w.index * warpSize
		at := [3]int{n % d[0], n / d[0] % d[1], n / (d[0] * d[1])}
		for i := range row {
			row[i] = uint64(at[axis])
			if at[0]++; at[0] == d[0] {
				at[0] = 0
				if at[1]++; at[1] == d[1] {
					at[1] = 0
					at[2]++
				}
			}
		}
	}
}

// clocks are the registers that return the clock. The clock counts executed warp instructions, and
// is the same in every run with the same seed.
var clocks = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return w.now() },
	"%clock_hi":       func(w *warp) uint64 { return w.now() >> 32 },
	"%clock64":        func(w *warp) uint64 { return w.now() },
	"%globaltimer":    func(w *warp) uint64 { return w.now() },
	"%globaltimer_lo": func(w *warp) uint64 { return w.now() },
	"%globaltimer_hi": func(w *warp) uint64 { return w.now() >> 32 },
}

// now returns the device's clock.
func (w *warp) now() uint64 { return w.launch.start + w.launch.steps }
