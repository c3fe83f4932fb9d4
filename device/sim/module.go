package sim

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

// loaded implements [device.Module].
type loaded struct {
	dev      *Device
	name     string
	prog     map[string]*program
	globals  []*segment // variables of the image
	unloaded bool
}

// Load parses the image's target for the device's architecture and allocates the image's variables.
func (d *Device) Load(img *device.Image) (device.Module, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if m, ok := d.modules[img]; ok {
		return m, nil
	}
	target := img.For(d.opts.Arch)
	if target == nil {
		return nil, fmt.Errorf("sim: %w: image %v has nothing for sm_%d", device.ErrUnsupported, img, d.opts.Arch)
	}
	name, text := fmt.Sprintf("%v_sm%d.ptx", img, target.Arch), target.PTX
	if d.opts.Rewrite != nil {
		text = d.opts.Rewrite(name, text)
	}
	m := &loaded{dev: d, name: name}
	if err := m.compile(text, text != target.PTX); err != nil {
		return nil, fmt.Errorf("sim: %w: %w", device.ErrKernel, err)
	}
	d.modules[img] = m
	return m, nil
}

// Unload frees the variables of an image. Its kernels can no longer be launched. It is a fault if a
// launch of its kernels is not done, or if the host has not waited for a work that uses its
// variables.
func (d *Device) Unload(img *device.Image) error {
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	m, ok := d.modules[img]
	if !ok {
		return nil
	}
	delete(d.modules, img)
	m.unloaded = true
	return m.freeGlobals()
}

// freeGlobals frees the variables of the image, and reports faults as Unload does.
func (m *loaded) freeGlobals() (err error) {
	for w := range m.dev.pending {
		if w.launch != nil && w.launch.module == m {
			err = m.dev.markLost(&Fault{Reason: fmt.Sprintf("image %s is unloaded, but a launch of its kernels is not done", m.name), Work: w.String()})
		}
	}
	for _, s := range m.globals {
		if e := m.dev.checkUnused(s, "unloaded"); err == nil {
			err = e
		}
		m.dev.heap.free(s)
	}
	return err
}

// checkLoaded returns an error if the image has been unloaded.
func (m *loaded) checkLoaded() error {
	if m.unloaded {
		return fmt.Errorf("sim: image %s was unloaded: %w", m.name, device.ErrClosed)
	}
	return nil
}

// assembly is a resolved image, which is the same for every device.
type assembly struct {
	prog    map[string]*program
	globals []*variable
}

// compiled caches the assemblies of images, since a test opens thousands of devices. A test may
// also make thousands of rewritten images, such as mutants. The cache keeps only the last
// maxRewritten of these.
var compiled = assemblies{of: map[source]*assembly{}}

type source struct{ name, text string }

type assemblies struct {
	mu        sync.Mutex
	of        map[source]*assembly
	rewritten []source // oldest first
}

// maxRewritten is the number of rewritten images that the cache keeps. It suffices for tests that
// compare several images, because such tests open many devices for each image.
const maxRewritten = 16

func (a *assemblies) get(s source) *assembly {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[s]
}

func (a *assemblies) put(s source, is *assembly, rewritten bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[s] != nil {
		return
	}
	a.of[s] = is
	if !rewritten {
		return
	}
	if a.rewritten = append(a.rewritten, s); len(a.rewritten) > maxRewritten {
		delete(a.of, a.rewritten[0])
		a.rewritten = slices.Delete(a.rewritten, 0, 1)
	}
}

// compile resolves all kernels of a module and allocates its variables.
func (m *loaded) compile(text string, rewritten bool) error {
	from := source{m.name, text}
	is := compiled.get(from)
	if is == nil {
		var err error
		if is, err = resolve(from); err != nil {
			return err
		}
		compiled.put(from, is, rewritten)
	}
	m.prog = is.prog
	for _, v := range is.globals {
		s, ok := m.dev.heap.alloc(max(v.size, 1))
		if !ok {
			return errors.Join(fmt.Errorf("%w: %d bytes for variable %s", device.ErrMemory, v.size, v.name), m.freeGlobals())
		}
		m.globals = append(m.globals, s)
		copy(s.data, v.init)
		s.mark(0, v.size, true) // the rest is 0, as in C
		s.constant = v.space == spaceConst
	}
	return nil
}

// resolve parses an image and assembles its kernels.
func resolve(from source) (*assembly, error) {
	mod, err := parse(from.name, from.text)
	if err != nil {
		return nil, err
	}
	is := &assembly{map[string]*program{}, mod.globals}
	for name, k := range mod.kernels {
		if is.prog[name], err = assemble(k); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// Kernel implements [device.Module].
func (m *loaded) Kernel(name string) (device.Kernel, error) {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if err := m.checkLoaded(); err != nil {
		return nil, err
	}
	p, ok := m.prog[name]
	if !ok {
		return nil, fmt.Errorf("sim: %w: %s has no kernel %q", device.ErrKernel, m.name, name)
	}
	return &entry{m.dev, m, p}, nil
}

// entry is a kernel of a loaded image.
type entry struct {
	dev    *Device
	module *loaded
	prog   *program
}

func (e *entry) Name() string   { return e.prog.kernel.name }
func (e *entry) ParamSize() int { return e.prog.kernel.paramSize }
