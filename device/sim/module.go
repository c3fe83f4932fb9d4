package sim

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// A loaded image.
type loaded struct {
	dev  *Device
	name string
	prog map[string]*program
}

// Load parses the image of the device's architecture and places its global
// variables.
func (d *Device) Load(img *device.Image) (device.Module, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if m, ok := d.modules[img]; ok {
		return m, nil
	}
	target := img.For(d.opts.Arch)
	if target == nil {
		return nil, fmt.Errorf("sim: %w: image %s has nothing for sm_%d", device.ErrUnsupported, img.Name, d.opts.Arch)
	}
	name, text := fmt.Sprintf("%s_sm%d.ptx", img.Name, target.Arch), target.PTX
	if d.opts.Rewrite != nil {
		text = d.opts.Rewrite(name, text)
	}
	prog, err := compile(name, text, d.heap)
	if err != nil {
		return nil, fmt.Errorf("sim: %w: %w", device.ErrKernel, err)
	}
	m := &loaded{d, name, prog}
	d.modules[img] = m
	return m, nil
}

// compiled keeps the programs of images without variables of their own, which
// are the same for every device: a test opens thousands.
var compiled sync.Map // of source to map[string]*program

type source struct{ name, text string }

// compile resolves all kernels of a module and places its variables.
func compile(name, text string, h *heap) (map[string]*program, error) {
	if prog, ok := compiled.Load(source{name, text}); ok {
		return prog.(map[string]*program), nil
	}
	mod, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	global := map[*variable]uint64{}
	for _, v := range mod.globals {
		s, ok := h.alloc(max(v.size, 1))
		if !ok {
			return nil, fmt.Errorf("%w: %d bytes for variable %s", device.ErrMemory, v.size, v.name)
		}
		copy(s.data, v.init)
		s.mark(0, v.size, true) // the rest is zero, as in C
		s.constant = v.space == spaceConst
		global[v] = s.base
	}
	prog := map[string]*program{}
	for name, k := range mod.kernels {
		if prog[name], err = assemble(k, global); err != nil {
			return nil, err
		}
	}
	if len(mod.globals) == 0 {
		compiled.Store(source{name, text}, prog)
	}
	return prog, nil
}

// Kernel finds an entry point.
func (m *loaded) Kernel(name string) (device.Kernel, error) {
	p, ok := m.prog[name]
	if !ok {
		return nil, fmt.Errorf("sim: %w: %s has no kernel %q", device.ErrKernel, m.name, name)
	}
	return &entry{m.dev, p}, nil
}

// An entry is a kernel ready to launch.
type entry struct {
	dev  *Device
	prog *program
}

func (e *entry) Name() string   { return e.prog.kernel.name }
func (e *entry) ParamSize() int { return e.prog.kernel.paramSize }
