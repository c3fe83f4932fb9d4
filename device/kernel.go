package device

// Dim is the extent of a grid or a block. Zero members count as 1.
type Dim struct{ X, Y, Z int }

// Image is the compiled form of one source file of kernels, as cmd/weftgen generates it. Images are
// package variables, compared by address.
type Image struct {
	Name    string   // name of the source: "linear"
	Variant string   // "64_64" if images of one source differ by it; or ""
	Targets []Target // ascending by Arch
}

// String returns the name with the variant: "linear_64_64".
func (img *Image) String() string { return img.Name + img.suffix() }

// Entry returns the name of a kernel in the image: "linear_get_64_64" for "get".
func (img *Image) Entry(kernel string) string { return img.Name + "_" + kernel + img.suffix() }

func (img *Image) suffix() string {
	if img.Variant == "" {
		return ""
	}
	return "_" + img.Variant
}

// Target is an image for one architecture and all newer ones.
type Target struct {
	Arch int    // 80, 90
	PTX  string // PTX assembly text; it may name an older architecture
	// Params maps each kernel of PTX to the size in bytes of its parameters, without padding at the
	// end: of its one parameter struct, or of a struct with its parameters as fields. It is nil in
	// images made by hand. Devices then find the sizes themselves, if they can.
	Params map[string]int
	// MinBlocks maps a kernel to the number of blocks that must fit a multiprocessor, if it differs
	// from the number in PTX. Targets that differ in nothing else share their PTX.
	MinBlocks map[string]int
}

// For returns the newest target that a device of arch runs, or nil.
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
	// Kernel finds an entry point by name. ErrKernel if the image has no such entry point.
	Kernel(name string) (Kernel, error)
}

// Kernel is an entry point of a loaded image.
type Kernel interface {
	Name() string
	// ParamSize is the size in bytes of the kernel's one parameter struct, or of a struct with its
	// parameters as fields, without padding at the end.
	ParamSize() int
}
