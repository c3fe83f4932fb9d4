package misra

import "github.com/weftgo/weft/device"

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 misra.cu

const blockThreads = 256 // compiled into the kernel

// gpuLaunch returns the function apply for a device that runs kernels.
func (s *Set) gpuLaunch() (func(*device.Stream, batch, uint32) error, error) {
	module, err := s.dev.Load(&misraImage)
	if err != nil {
		return nil, err
	}
	kernel, err := module.Kernel("misra_apply")
	if err != nil {
		return nil, err
	}
	return func(stream *device.Stream, b batch, first uint32) error {
		n := b.keys.Len()
		p := applyParams{
			nodes: s.words.Ptr(), keys: b.keys.Ptr(), kinds: b.kinds.Ptr(), ok: b.ok.Ptr(),
			seed: s.opts.Seed, buckets: uint32(s.opts.Buckets), first: first, n: uint32(n),
		}
		grid := device.Dim{X: (n + blockThreads - 1) / blockThreads}
		return device.Launch(stream, kernel, grid, device.Dim{X: blockThreads}, &p)
	}, nil
}
