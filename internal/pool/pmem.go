package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Domain is how far a store must travel to survive a power failure.
type Domain string

// The domains of persistent memory.
const (
	CPUCache         Domain = "cpu_cache"         // into the caches (eADR)
	MemoryController Domain = "memory_controller" // out of the caches; the host must write lines back
	// into the caches, which the device's Global Persistent Flush empties
	CXL Domain = "cxl"
)

// Terms are the conditions of an opening: the requested durability, the processors that store to
// the pool, and what the operator asserts.
type Terms struct {
	// PMem is required, of a file too. A device is granted PMem or refused in any case.
	PMem bool
	GPU  bool // a GPU stores to the pool, besides the host
	// Salvage allows opening a pool that was open when the machine stopped: see [Pool.PowerLost].
	Salvage bool
	Said    Asserted
}

// Asserted is what the operator vouches for because the system does not report it.
type Asserted struct {
	Persistent bool // what has left the CPU's caches survives, in any memory
	// stores of the GPU bypass the CPU's caches: DDIO is off at its root port
	DDIOOff               bool
	GlobalPersistentFlush bool // the CXL device, its host and its power supply have it
}

// sysfs is the root of the system's descriptions of devices.
var sysfs = "/sys"

// refuse returns an error with the reason why PMem is not granted.
func refuse(why string, args ...any) (Domain, error) {
	return "", fmt.Errorf("%w: %s", ErrNotDurable, fmt.Sprintf(why, args...))
}

// deviceOf returns the directory of a character device under sysfs.
func deviceOf(major, minor uint32) string {
	return filepath.Join(sysfs, "dev", "char", fmt.Sprintf("%d:%d", major, minor))
}

// checkPMem returns the persistence domain of a character device, from the files under sysfs. The
// device must be memory (devdax), in a region that reports its domain. Stores of a GPU must not
// stop in a cache outside of the domain, since nothing would write them back from there.
func checkPMem(major, minor uint32, terms Terms) (Domain, error) {
	at, err := filepath.EvalSymlinks(deviceOf(major, minor))
	if err != nil {
		return refuse("%d:%d is not among the system's devices: %v", major, minor, err)
	}
	if bus := linked(at, "subsystem"); bus != "dax" {
		return refuse("a device of subsystem %q, not of dax", bus)
	}
	if driver := linked(at, "driver"); driver != "device_dax" {
		return refuse("bound to driver %q, not to device_dax", driver)
	}
	root, err := filepath.EvalSymlinks(sysfs)
	if err != nil {
		return refuse("%v", err)
	}
	for ; strings.HasPrefix(at, root) && at != root; at = filepath.Dir(at) {
		domain, err := os.ReadFile(filepath.Join(at, "persistence_domain"))
		switch is := Domain(strings.TrimSpace(string(domain))); {
		case err == nil && is == CPUCache, err == nil && is == MemoryController && (!terms.GPU || terms.Said.DDIOOff):
			return is, nil
		case err == nil && is == MemoryController:
			return refuse("memory controllers are its persistence domain, and nobody asserts that DDIO is off for the GPU's root port")
		case err == nil:
			return refuse("persistence domain %q, not %q or %q", is, CPUCache, MemoryController)
		case linked(at, "subsystem") == "cxl" && terms.Said.GlobalPersistentFlush:
			return CXL, nil
		case linked(at, "subsystem") == "cxl":
			return refuse("memory behind CXL, and nobody asserts Global Persistent Flush")
		}
	}
	return refuse("the system tells no persistence domain: the memory is volatile, or the platform does not say")
}

// linked returns the base name of the target of a device's link, or "".
func linked(device, link string) string {
	to, err := os.Readlink(filepath.Join(device, link))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
