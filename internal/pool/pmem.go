package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Domain is the part of a machine that a store must reach to survive a power failure.
type Domain string

// Domains of persistent memory.
const (
	CPUCache Domain = "cpu_cache" // stores survive once they are in the caches (eADR)
	// stores survive once they have left the caches, so the host must write back cache lines
	MemoryController Domain = "memory_controller"
	// stores survive in the caches, which Global Persistent Flush of the device writes back
	CXL Domain = "cxl"
)

// Requirements are the conditions for opening a pool: the required durability, the processors that
// store to the pool, and the operator's assertions.
type Requirements struct {
	// PMem requires the durability [PMem] of a file. A device must always provide it.
	PMem bool
	GPU  bool // a GPU stores to the pool, too
	// Salvage allows opening a pool that was open when the machine stopped; see [Pool.PowerLost].
	Salvage  bool
	Asserted Assertions
}

// Assertions are conditions that the operator guarantees because the system does not report them.
type Assertions struct {
	Persistent bool // data outside the CPU's caches survives a power failure, in any memory
	// stores of the GPU bypass the CPU's caches, since DDIO is off at the GPU's root port
	DDIOOff bool
	// the CXL device, its host and its power supply support Global Persistent Flush
	GlobalPersistentFlush bool
}

var sysfs = "/sys"

func notDurable(reason string, args ...any) (Domain, error) {
	return "", fmt.Errorf("%w: %s", ErrNotDurable, fmt.Sprintf(reason, args...))
}

// deviceOf returns the directory in sysfs that describes a character device.
func deviceOf(major, minor uint32) string {
	return filepath.Join(sysfs, "dev", "char", fmt.Sprintf("%d:%d", major, minor))
}

// checkPMem returns the persistence domain of a character device, as sysfs reports it, or
// [ErrNotDurable]. The device must be memory (devdax) in a region that reports its domain. Stores
// of a GPU must not stay in a cache outside the domain, since nothing would write them back.
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
			return notDurable("its persistence domain is the memory controllers, without an assertion that DDIO is off for the GPU's root port")
		case err == nil:
			return notDurable("persistence domain %q, not %q or %q", reported, CPUCache, MemoryController)
		case linkBase(at, "subsystem") == "cxl" && req.Asserted.GlobalPersistentFlush:
			return CXL, nil
		case linkBase(at, "subsystem") == "cxl":
			return notDurable("memory attached by CXL, without an assertion of Global Persistent Flush")
		}
	}
	return notDurable("the system reports no persistence domain: the memory is volatile, or the platform does not report one")
}

func linkBase(device, link string) string {
	target, err := os.Readlink(filepath.Join(device, link))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}
