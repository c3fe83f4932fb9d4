package gpu

import "github.com/weftgo/weft/device"

//go:generate go run ../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 gpu.cu

// scanStrip is the number of counts that a warp adds up (scan.cuh).
const scanStrip = 1024

// kernels holds the kernels that all structures share.
type kernels struct {
	add    Adder
	apply  device.Kernel
	answer [2]device.Kernel // for values of 4 and of 8 bytes
	scan   [3]device.Kernel // the three steps of Offsets
}

// loadKernels returns the kernels. The first call loads them.
func (w *Workspace) loadKernels() (*kernels, error) {
	w.loading.Lock()
	defer w.loading.Unlock()
	if w.kernels != nil {
		return w.kernels, nil
	}
	k := &kernels{}
	err := Load(w.dev, &gpuImage, []Entry{
		k.add.entry(), {Name: "settle", To: &k.apply},
		{Name: "answer_32", To: &k.answer[0]}, {Name: "answer_64", To: &k.answer[1]},
		{Name: "scan_sums", To: &k.scan[0]}, {Name: "scan_strips", To: &k.scan[1]}, {Name: "scan_offsets", To: &k.scan[2]},
	})
	if err == nil {
		w.kernels = k
	}
	return k, err
}

// Offsets submits kernels that compute n+1 offsets (uint64) from n counts (uint32). Unlike prim's
// scan, it needs no temporary memory, which would have to outlive the call.
func (w *Workspace) Offsets(s *device.Stream, counts, offsets device.Ptr, n int) error {
	k, err := w.loadKernels()
	if err != nil {
		return err
	}
	p := scanParams{counts: counts, offsets: offsets, n: uint64(n)}
	strips := (n + scanStrip - 1) / scanStrip
	for i, warps := range []int{strips, 1, strips} {
		if err := device.Launch(s, k.scan[i], Grid(32*warps), Block, &p); err != nil {
			return err
		}
	}
	return nil
}
