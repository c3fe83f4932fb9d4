package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// archVariable names the environment variable that selects an older architecture than the GPU's.
const archVariable = "WEFT_PTX"

// module implements [device.Module]. The driver compiles each kernel at its first launch, as a
// separate module, because a structure has twenty kernels and a program uses few of them. An image
// is compiled as a whole if it lacks the parameter sizes of its kernels, or if [split] fails.
type module struct {
	dev      *Device
	name     string
	targets  []device.Target // targets that the GPU can run, newest first
	unloaded bool            // guarded by dev.life

	mu sync.Mutex
	// source is the result of split for the first target. It is nil before the first kernel is
	// compiled, and if whole is set.
	source  *source
	whole   uintptr // CUmodule with all kernels, or 0
	kernels map[string]*kernel
}

// kernel implements [device.Kernel].
type kernel struct {
	module    *module
	name      string
	paramSize int
	handle    atomic.Uintptr // CUfunction, or 0 until the kernel is compiled
	single    uintptr        // CUmodule of this kernel alone, or 0; guarded by module.mu
}

// Load selects the targets of an image that the GPU can run. The driver compiles the newest target,
// or an older one if it does not support the PTX version of the newest. The driver caches compiled
// code on disk.
func (d *Device) Load(img *device.Image) (device.Module, error) {
	d.loading.Lock()
	defer d.loading.Unlock()
	if err := d.checkUsable(); err != nil {
		return nil, err
	}
	if m := d.modules[img]; m != nil {
		return m, nil
	}
	targets, err := d.targets(img)
	if err != nil {
		return nil, err
	}
	m := &module{dev: d, name: img.String(), targets: targets, kernels: map[string]*kernel{}}
	if targets[0].Params == nil {
		if err := d.do(m.compileWhole); err != nil {
			return nil, err
		}
	}
	d.modules[img] = m
	return m, nil
}

// targets returns the targets of img that the GPU can run, newest first.
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

// arch returns the architecture that selects targets: the GPU's, or an older one in archVariable.
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

// compile loads the text of the newest target that the driver can compile, and removes newer
// targets. It tries an older target only if the driver does not support the PTX version.
func (m *module) compile(fr *frame, text func(t *device.Target) string) (handle uintptr, err error) {
	for {
		t := &m.targets[0]
		if handle, err = fr.loadModule(text(t)); err == nil {
			return handle, nil
		}
		if codeOf(err) != unsupportedPTX || len(m.targets) == 1 {
			return 0, fmt.Errorf("image %s for compute capability %d.%d: %w", m.name, t.Arch/10, t.Arch%10, err)
		}
		m.targets, m.source = m.targets[1:], nil
	}
}

// compileWhole compiles all kernels as one module.
func (m *module) compileWhole(fr *frame) (err error) {
	m.whole, err = m.compile(fr, func(t *device.Target) string { return t.PTX })
	return err
}

// compileOne compiles kernel k, or all kernels if the text cannot be split.
func (m *module) compileOne(fr *frame, k *kernel) (err error) {
	k.single, err = m.compile(fr, func(t *device.Target) string {
		if m.source == nil {
			m.source = split(t.PTX)
		}
		if m.source == nil || m.source.kernels[k.name] == "" {
			return t.PTX
		}
		return m.source.kernel(k.name, t)
	})
	if err == nil && m.source == nil {
		m.whole, k.single = k.single, 0
	}
	return err
}

// ensureCompiled compiles a kernel that is not compiled yet. Callers call it within do.
func (k *kernel) ensureCompiled(fr *frame) error {
	if err := k.module.checkLoaded(); err != nil || k.handle.Load() != 0 {
		return err
	}
	k.module.mu.Lock()
	defer k.module.mu.Unlock()
	if k.handle.Load() != 0 {
		return nil
	}
	if k.module.whole == 0 && k.single == 0 {
		if err := k.module.compileOne(fr, k); err != nil {
			return err
		}
	}
	return k.find(fr)
}

// find reads the handle of a compiled kernel from the driver.
func (k *kernel) find(fr *frame) error {
	m := k.module
	if err := fr.call(symModuleGetFunction, fr.result(0), max(m.whole, k.single), fr.cString(k.name)); err != nil {
		return fmt.Errorf("image %s has no kernel %s: %w", m.name, k.name, err)
	}
	k.handle.Store(uintptr(fr.out[0]))
	return nil
}

// jit is the memory that the driver's compiler reads and writes.
type jit struct {
	ptx     []byte // ends in NUL
	log     [8 << 10]byte
	options [2]int32
	values  [2]uintptr // a number or an address for each option
}

// loadModule compiles and loads PTX text. An error holds the compiler's messages.
func (fr *frame) loadModule(ptx string) (uintptr, error) {
	j := &jit{ptx: append([]byte(ptx), 0), options: [2]int32{jitErrorLogBuffer, jitErrorLogSizeBytes}}
	fr.held = j // before taking addresses: this moves j to the heap
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
	if err := d.checkUsable(); err != nil {
		return err
	}
	m := d.modules[img]
	if m == nil {
		return nil
	}
	delete(d.modules, img)
	// Every caller holds the read lock from checkLoaded to its driver call, so none is in between
	// now.
	d.life.Lock()
	defer d.life.Unlock()
	m.unloaded = true
	return d.releaseLocked(m.release)
}

// checkLoaded returns an error if the module has been unloaded. Callers call it within do.
func (m *module) checkLoaded() error {
	if m.unloaded {
		return fmt.Errorf("image %s has been unloaded: %w", m.name, device.ErrClosed)
	}
	return nil
}

// unload unloads all modules. Close calls it.
func (d *Device) unload(fr *frame) error {
	var errs []error
	for _, m := range d.modules {
		errs = append(errs, m.release(fr))
	}
	d.modules = nil
	return errors.Join(errs...)
}

func (m *module) release(fr *frame) error {
	var errs []error
	unload := func(handle uintptr) {
		if handle != 0 {
			errs = append(errs, fr.call(symModuleUnload, handle))
		}
	}
	unload(m.whole)
	for _, k := range m.kernels {
		unload(k.single)
	}
	return errors.Join(errs...)
}

// Kernel implements [device.Module]. It compiles only if the image lacks the parameter size.
func (m *module) Kernel(name string) (device.Kernel, error) {
	if len(name) >= maxParams {
		return nil, fmt.Errorf("cuda: %w: the name of the kernel has %d bytes, too many",
			device.ErrKernel, len(name))
	}
	var k *kernel
	err := m.dev.do(func(fr *frame) (err error) {
		if err := m.checkLoaded(); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if k = m.kernels[name]; k == nil {
			k = &kernel{module: m, name: name}
			if err = k.measure(fr); err == nil {
				m.kernels[name] = k
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// measure sets the parameter size of k, from the image or else from the driver.
func (k *kernel) measure(fr *frame) (err error) {
	m, known := k.module, false
	if k.paramSize, known = m.targets[0].Params[k.name]; known {
		return checkSize(k.name, k.paramSize)
	}
	if m.whole == 0 {
		if err := m.compileWhole(fr); err != nil {
			return err
		}
	}
	if err := k.find(fr); err != nil {
		return err
	}
	k.paramSize, err = m.readParamSize(fr, k)
	return err
}

// readParamSize reads the parameter size of a compiled kernel from the driver.
func (m *module) readParamSize(fr *frame, k *kernel) (int, error) {
	if !fr.drv.has(symFuncGetParamInfo) {
		return 0, fmt.Errorf("%w: image %s does not say what parameters kernel %s takes (device.Target.Params), and only drivers for CUDA %s and later can report it; this one is for CUDA %s",
			device.ErrKernel, m.name, k.name, versionString(symbols[symFuncGetParamInfo].since), versionString(fr.drv.version))
	}
	sizes, err := fr.paramSizes(k.handle.Load())
	if err != nil {
		return 0, err
	}
	return singleParamSize(k.name, sizes)
}

// paramSizes reads the sizes of a kernel's parameters from the driver. It stops after two.
func (fr *frame) paramSizes(kernel uintptr) ([]int, error) {
	sizes := []int{}
	for len(sizes) < 2 { // two are an error already
		c := fr.code(symFuncGetParamInfo, kernel, uintptr(len(sizes)), fr.result(0), fr.result(1))
		switch c {
		case success:
			sizes = append(sizes, int(fr.out[1]))
		case invalidValue: // index after the last parameter
			return sizes, nil
		default:
			return nil, fr.newError(symFuncGetParamInfo, c)
		}
	}
	return sizes, nil
}

// singleParamSize returns the size of a kernel's one parameter, or an error if it has several.
func singleParamSize(name string, sizes []int) (int, error) {
	switch {
	case len(sizes) == 0:
		return 0, nil
	case len(sizes) > 1:
		return 0, fmt.Errorf("%w: kernel %s takes several parameters; it must take one struct, unless the image has their size together (device.Target.Params)", device.ErrKernel, name)
	}
	return sizes[0], checkSize(name, sizes[0])
}

// checkSize returns an error if the parameters do not fit a frame.
func checkSize(name string, size int) error {
	if size < 0 || size > maxParams {
		return fmt.Errorf("%w: kernel %s takes %d bytes of parameters; the limit is %d", device.ErrKernel, name, size, maxParams)
	}
	return nil
}

func (k *kernel) Name() string   { return k.name }
func (k *kernel) ParamSize() int { return k.paramSize }
