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
	CPUCache Domain = "cpu_cache" // into the caches (eADR)
	// out of the caches; the host must write lines back
	MemoryController Domain = "memory_controller"
	// into the caches, which the device's Global Persistent Flush empties
	CXL Domain = "cxl"
)

// Requirements are the conditions of an opening: the requested durability, the processors that
// store to the pool, and what the operator asserts.
type Requirements struct {
	// PMem is required, of a file too. A device is granted PMem or refused in any case.
	PMem bool
	GPU  bool // a GPU stores to the pool, besides the host
	// Salvage allows opening a pool that was open when the machine stopped: see [Pool.PowerLost].
	Salvage  bool
	Asserted Assertions
}

// Assertions is what the operator vouches for because the system does not report it.
type Assertions struct {
	Persistent bool // what has left the CPU's caches survives, in any memory
	// stores of the GPU bypass the CPU's caches: DDIO is off at its root port
	DDIOOff               bool
	GlobalPersistentFlush bool // the CXL device, its host and its power supply have it
}

// sysfs is the root of the system's descriptions of devices.
var sysfs = "/sys"

// notDurable returns an error with the reason why PMem is not granted.
func notDurable(reason string, args ...any) (Domain, error) {
	return "", fmt.Errorf("%w: %s", ErrNotDurable, fmt.Sprintf(reason, args...))
}

// deviceOf returns the directory of a character device under sysfs.
func deviceOf(major, minor uint32) string {
	return filepath.Join(sysfs, "dev", "char", fmt.Sprintf("%d:%d", major, minor))
}

// checkPMem returns the persistence domain of a character device, from the files under sysfs. The
// device must be memory (devdax), in a region that reports its domain. Stores of a GPU must not
// stop in a cache outside of the domain, since nothing would write them back from there.
func checkPMem(major, minor uint32, req Requirements) (Domain, error) {
	at, err := filepath.EvalSymlinks(deviceOf(major, minor))
	if err != nil {
		return notDurable("%d:%d is not among the system's devices: %v", major, minor, err)
	}
	if bus := linkBase(at, "subsystem"); bus != "dax" {
		return notDurable("a device of subsystem %q, not of dax", bus)
	}
	if driver := linkBase(at, "driver"); driver != "device_dax" {
		return notDurable("bound to driver %q, not to device_dax", driver)
	}
	root, err := filepath.EvalSymlinks(sysfs)
	if err != nil {
		return notDurable("%v", err)
	}
	for ; strings.HasPrefix(at, root) && at != root; at = filepath.Dir(at) {
		domain, err := os.ReadFile(filepath.Join(at, "persistence_domain"))
		switch reported := Domain(strings.TrimSpace(string(domain))); {
		case err == nil && reported == CPUCache, err == nil && reported == MemoryController && (!req.GPU || req.Asserted.DDIOOff):
			return reported, nil
		case err == nil && reported == MemoryController:
			return notDurable("memory controllers are its persistence domain, and nobody asserts that DDIO is off for the GPU's root port")
		case err == nil:
			return notDurable("persistence domain %q, not %q or %q", reported, CPUCache, MemoryController)
		case linkBase(at, "subsystem") == "cxl" && req.Asserted.GlobalPersistentFlush:
			return CXL, nil
		case linkBase(at, "subsystem") == "cxl":
			return notDurable("memory behind CXL, and nobody asserts Global Persistent Flush")
		}
	}
	return notDurable("the system tells no persistence domain: the memory is volatile, or the platform does not say")
}

// linkBase returns the base name of the target of a device's link, or "".
func linkBase(device, link string) string {
	target, err := os.Readlink(filepath.Join(device, link))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}
