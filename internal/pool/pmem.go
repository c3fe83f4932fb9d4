package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Domain is how far a store must have come to survive a power failure.
type Domain string

// The domains of persistent memory.
const (
	CPUCache         Domain = "cpu_cache"         // into the caches (eADR)
	MemoryController Domain = "memory_controller" // out of the caches: the host has to write lines back
	CXL              Domain = "cxl"               // into the caches, which the device's Global Persistent Flush empties
)

// Terms are on what PMem is granted: who stores to the pool, and what the operator
// vouches for.
type Terms struct {
	PMem bool // it is asked for, of a file, too; a device is granted it or refused in any case
	GPU  bool // a GPU stores to the pool, besides the host
	// Salvage opens a pool that was open when the machine stopped: see [Pool.PowerLost].
	Salvage bool
	Said    Asserted
}

// Asserted is what no file of the system says and the operator vouches for.
type Asserted struct {
	Persistent            bool // what has left the CPU's caches survives, in whatever memory the pool is
	DDIOOff               bool // stores of the GPU pass by the CPU's caches: DDIO is off at its root port
	GlobalPersistentFlush bool // the CXL device, its host and its power supply have it
}

// sysfs is where the system describes its devices.
var sysfs = "/sys"

// refuse says why PMem is not granted.
func refuse(why string, args ...any) (Domain, error) {
	return "", fmt.Errorf("%w: %s", ErrNotDurable, fmt.Sprintf(why, args...))
}

// deviceOf is the directory of a character device below sysfs.
func deviceOf(major, minor uint32) string {
	return filepath.Join(sysfs, "dev", "char", fmt.Sprintf("%d:%d", major, minor))
}

// checkPMem says which domain a character device is in, by the files below sysfs: it is
// a device of memory (devdax), of a region whose persistence domain is told; stores
// of a GPU reach that domain only if they do not stop in a cache outside of it, from
// which nobody writes them back.
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

// linked is the name of what a link of a device points to, or "".
func linked(device, link string) string {
	to, err := os.Readlink(filepath.Join(device, link))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
