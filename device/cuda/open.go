package cuda

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// minArch is the oldest compute capability that can run the kernels that ship with weft.
const minArch = 80

// Devices lists the GPUs that the driver reports, including those too old for [Open]. It creates no
// context on a GPU, so that it is fast and takes no memory of the GPU.
func Devices() ([]device.Properties, error) {
	drv, err := systemDriver()
	if err != nil {
		return nil, err
	}
	return drv.devices()
}

// Open opens the GPU of this index, in the numbering of CUDA_VISIBLE_DEVICES. Several devices can
// be opened on one GPU. They are independent but share the GPU's context.
func Open(index int) (*Device, error) {
	drv, err := systemDriver()
	if err != nil {
		return nil, err
	}
	return drv.open(index)
}

func (drv *driver) devices() ([]device.Properties, error) {
	fr := drv.frame()
	defer fr.put()
	n, err := fr.deviceCount()
	if err != nil {
		return nil, err
	}
	list := make([]device.Properties, n)
	for i := range list {
		if _, list[i], err = fr.properties(i); err != nil {
			return nil, fmt.Errorf("cuda: device %d: %w", i, err)
		}
	}
	return list, nil
}

func (fr *frame) deviceCount() (int, error) {
	if err := fr.call(symDeviceGetCount, fr.result(0)); err != nil {
		return 0, fmt.Errorf("cuda: %w", err)
	}
	return fr.int32(0), nil
}

// properties reads the driver's handle and the properties of a GPU.
func (fr *frame) properties(index int) (handle uintptr, p device.Properties, err error) {
	if err := fr.call(symDeviceGet, fr.result(0), uintptr(index)); err != nil {
		return 0, p, err
	}
	handle = uintptr(fr.int32(0))
	name := fr.cString("")
	if err := fr.call(symDeviceGetName, name, maxParams-1, handle); err != nil {
		return 0, p, err
	}
	fr.ptr = unsafe.Pointer(&fr.params)
	p = device.Properties{Kind: device.CUDA, Name: fr.string(), Index: index, Driver: versionString(fr.drv.version)}
	var major, minor int
	for _, a := range []struct {
		attribute uintptr
		to        *int
	}{
		{attrCapabilityMajor, &major},
		{attrCapabilityMinor, &minor},
		{attrMultiprocessors, &p.Units},
		{attrL2CacheSize, &p.L2},
	} {
		if err := fr.call(symDeviceGetAttribute, fr.result(0), a.attribute, handle); err != nil {
			return 0, p, err
		}
		*a.to = fr.int32(0)
	}
	p.Arch = 10*major + minor
	return handle, p, nil
}

func (drv *driver) open(index int) (*Device, error) {
	fr := drv.frame()
	defer fr.put()
	n, err := fr.deviceCount()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("cuda: %w: index %d, the driver sees %d GPUs", device.ErrNoDevice, index, n)
	}
	handle, props, err := fr.properties(index)
	if err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", index, err)
	}
	if props.Arch < minArch {
		return nil, fmt.Errorf("cuda: device %d (%s): %w: compute capability %d.%d, weft's kernels need %d.%d or newer",
			index, props.Name, device.ErrUnsupported, props.Arch/10, props.Arch%10, minArch/10, minArch%10)
	}
	if err := fr.call(symPrimaryCtxRetain, fr.result(0), handle); err != nil {
		return nil, fmt.Errorf("cuda: device %d (%s): %w", index, props.Name, err)
	}
	return &Device{
		pieceBytes: mapPiece,
		drv:        drv,
		props:      props,
		handle:     handle,
		ctx:        uintptr(fr.out[0]),
		children:   map[child]struct{}{},
		modules:    map[*device.Image]*module{},
	}, nil
}
