package device

// Dim is the size of a grid in blocks, or of a block in threads. A member of 0 counts as 1.
type Dim struct{ X, Y, Z int }

// Image is the compiled form of one source file of kernels. cmd/weftgen generates images as package
// variables, which devices compare by address.
type Image struct {
	Name    string   // name of the source file: "linear"
	Variant string   // for example "64_64"; "" if the source has one image only
	Targets []Target // ascending by Arch
}

// String returns the image's name and variant: "linear_64_64".
func (img *Image) String() string { return img.Name + img.suffix() }

// Entry returns the name of the entry point for a kernel: "linear_get_64_64" for "get".
func (img *Image) Entry(kernel string) string { return img.Name + "_" + kernel + img.suffix() }

func (img *Image) suffix() string {
	if img.Variant == "" {
		return ""
	}
	return "_" + img.Variant
}

// Target is the code of an image for one architecture and all newer ones.
type Target struct {
	Arch int    // minimum architecture, as in Properties.Arch: 80, 90
	PTX  string // PTX assembly; its own target may be older than Arch
	// Params maps each kernel in PTX to the size in bytes of its parameters, without padding at the
	// end. The parameters of a kernel are one struct or the fields of one. Params is nil in images
	// made by hand; devices then read the sizes elsewhere, if they can.
	Params map[string]int
	// MinBlocks maps a kernel to the number of blocks that must fit a multiprocessor. It contains
	// only kernels for which this number differs from the number in PTX. Targets that differ in
	// nothing else share their PTX.
	MinBlocks map[string]int
}

// For returns the target with the highest Arch that a device of architecture arch can run, or nil.
func (img *Image) For(arch int) *Target {
	for i := len(img.Targets) - 1; i >= 0; i-- {
		if img.Targets[i].Arch <= arch {
			return &img.Targets[i]
		}
	}
	return nil
}

// Module is an image loaded on a device.
type Module interface {
	// Kernel returns the entry point of this name, or ErrKernel if the image has none.
	Kernel(name string) (Kernel, error)
}

// Kernel is an entry point of a loaded image.
type Kernel interface {
	Name() string
	// ParamSize returns the size in bytes of the kernel's parameters, without padding at the end.
	// The parameters are one struct or the fields of one.
	ParamSize() int
}
