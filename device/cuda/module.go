package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// archVariable names an environment variable that makes the driver get the
// kernels of an older architecture than the GPU's.
const archVariable = "WEFT_PTX"

// module implements [device.Module].
type module struct {
	dev      *Device
	name     string
	handle   uintptr        // CUmodule
	params   map[string]int // sizes of the kernels' parameters; nil if the image has none
	unloaded bool           // under dev.life
}

// kernel implements [device.Kernel].
type kernel struct {
	module    *module
	name      string
	handle    uintptr // CUfunction
	paramSize int
}

// Load has the driver compile the newest target of the image that the GPU
// runs, or an older one if the driver does not know that version of PTX. The
// driver keeps what it compiled on disk: the first time takes long.
func (d *Device) Load(img *device.Image) (device.Module, error) {
	d.loading.Lock()
	defer d.loading.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	if m := d.modules[img]; m != nil {
		return m, nil
	}
	targets, err := d.targets(img)
	if err != nil {
		return nil, err
	}
	var m *module
	for i := range targets {
		m, err = d.load(img.String(), &targets[i])
		if codeOf(err) != unsupportedPTX {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	d.modules[img] = m
	return m, nil
}

// targets lists the targets of an image that the GPU runs, newest first.
func (d *Device) targets(img *device.Image) ([]device.Target, error) {
	arch, err := d.arch()
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(img.Targets), func(t device.Target) bool { return t.Arch > arch })
	slices.Reverse(list)
	if len(list) == 0 {
		return nil, fmt.Errorf("cuda: device %d: %w: image %s has no kernels for compute capability %d.%d",
			d.props.Index, device.ErrUnsupported, img, arch/10, arch%10)
	}
	return list, nil
}

// arch is the architecture to load kernels for: the GPU's, or the older one
// that the environment asks for.
func (d *Device) arch() (int, error) {
	v := os.Getenv(archVariable)
	if v == "" {
		return d.props.Arch, nil
	}
	arch, err := strconv.Atoi(v)
	if err != nil || arch < minArch {
		return 0, invalid("environment variable %s is %q; it must be an architecture from %d on", archVariable, v, minArch)
	}
	return min(arch, d.props.Arch), nil
}

// load compiles and loads one target.
func (d *Device) load(name string, t *device.Target) (*module, error) {
	m := &module{dev: d, name: name, params: t.Params}
	err := d.do(func(fr *frame) (err error) {
		if m.handle, err = fr.loadModule(t.PTX); err != nil {
			return fmt.Errorf("image %s for compute capability %d.%d: %w", name, t.Arch/10, t.Arch%10, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// jit is what the driver's compiler reads and writes.
type jit struct {
	ptx     []byte // ends in NUL
	log     [8 << 10]byte
	options [2]int32
	values  [2]uintptr // numbers and addresses, as the option has it
}

// loadModule loads PTX text. The error holds what the compiler said.
func (fr *frame) loadModule(ptx string) (uintptr, error) {
	j := &jit{ptx: append([]byte(ptx), 0), options: [2]int32{jitErrorLogBuffer, jitErrorLogSizeBytes}}
	fr.held = j // before addresses are taken: now it is on the heap
	j.values = [2]uintptr{address(j.log[:]), uintptr(len(j.log))}
	err := fr.call(symModuleLoadDataEx, fr.result(0), address(j.ptx), uintptr(len(j.options)),
		uintptr(unsafe.Pointer(&j.options)), uintptr(unsafe.Pointer(&j.values)))
	module := uintptr(fr.out[0])
	if err == nil {
		return module, nil
	}
	text, _, _ := strings.Cut(string(j.log[:]), "\x00")
	if text = strings.TrimSpace(text); text != "" {
		err = fmt.Errorf("%w\n%s", err, text)
	}
	return 0, err
}

// Unload implements [device.Device].
func (d *Device) Unload(img *device.Image) error {
	d.loading.Lock()
	defer d.loading.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	m := d.modules[img]
	if m == nil {
		return nil
	}
	delete(d.modules, img)
	// Nobody is between seeing that the module is loaded and calling the
	// driver with a kernel of it.
	d.life.Lock()
	defer d.life.Unlock()
	m.unloaded = true
	return d.attempt(func(fr *frame) error { return fr.call(symModuleUnload, m.handle) })
}

// loaded fails for a module that has been unloaded. It is called within do.
func (m *module) loaded() error {
	if m.unloaded {
		return fmt.Errorf("image %s has been unloaded: %w", m.name, device.ErrClosed)
	}
	return nil
}

// unload unloads all modules, for Close.
func (d *Device) unload(fr *frame) error {
	var errs []error
	for _, m := range d.modules {
		errs = append(errs, fr.call(symModuleUnload, m.handle))
	}
	d.modules = nil
	return errors.Join(errs...)
}

func (m *module) Kernel(name string) (device.Kernel, error) {
	if len(name) >= maxParams {
		return nil, fmt.Errorf("cuda: %w: a name of %d bytes", device.ErrKernel, len(name))
	}
	k := &kernel{module: m, name: name}
	err := m.dev.do(func(fr *frame) (err error) {
		if err := m.loaded(); err != nil {
			return err
		}
		if err := fr.call(symModuleGetFunction, fr.result(0), m.handle, fr.cString(name)); err != nil {
			return fmt.Errorf("image %s has no kernel %s: %w", m.name, name, err)
		}
		k.handle = uintptr(fr.out[0])
		k.paramSize, err = m.paramSize(fr, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// paramSize is the size of a kernel's parameter, as the image says, or as the
// driver does for an image made by hand.
func (m *module) paramSize(fr *frame, k *kernel) (int, error) {
	if size, ok := m.params[k.name]; ok {
		return size, checkSize(k.name, size)
	}
	if !fr.drv.has(symFuncGetParamInfo) {
		return 0, fmt.Errorf("%w: image %s does not say what parameters kernel %s takes (device.Target.Params), and only drivers for CUDA %s and later can tell; this one is for CUDA %s",
			device.ErrKernel, m.name, k.name, versionString(symbols[symFuncGetParamInfo].since), versionString(fr.drv.version))
	}
	sizes, err := fr.paramSizes(k.handle)
	if err != nil {
		return 0, err
	}
	return oneStruct(k.name, sizes)
}

// paramSizes asks the driver for the sizes of a kernel's parameters.
func (fr *frame) paramSizes(kernel uintptr) ([]int, error) {
	sizes := []int{}
	for len(sizes) < 2 { // two are too many already
		c := fr.code(symFuncGetParamInfo, kernel, uintptr(len(sizes)), fr.result(0), fr.result(1))
		switch c {
		case success:
			sizes = append(sizes, int(fr.out[1]))
		case invalidValue: // beyond the last
			return sizes, nil
		default:
			return nil, fr.newError(symFuncGetParamInfo, c)
		}
	}
	return sizes, nil
}

// oneStruct checks that a kernel takes one parameter at most, and gives its
// size.
func oneStruct(name string, sizes []int) (int, error) {
	switch {
	case len(sizes) == 0:
		return 0, nil
	case len(sizes) > 1:
		return 0, fmt.Errorf("%w: kernel %s takes several parameters; it must take one struct, unless the image has their size together (device.Target.Params)", device.ErrKernel, name)
	}
	return sizes[0], checkSize(name, sizes[0])
}

// checkSize refuses parameters that a frame does not hold.
func checkSize(name string, size int) error {
	if size < 0 || size > maxParams {
		return fmt.Errorf("%w: kernel %s takes %d bytes of parameters; the limit is %d", device.ErrKernel, name, size, maxParams)
	}
	return nil
}

func (k *kernel) Name() string   { return k.name }
func (k *kernel) ParamSize() int { return k.paramSize }
