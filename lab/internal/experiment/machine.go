package experiment

import (
	"os"
	"runtime"
	"strings"

	"github.com/weftgo/weft/device"
)

// Hardware describes the machine of a result.
type Hardware struct {
	Kind  string `json:"kind"` // cpu or cuda
	Name  string `json:"name"`
	Units int    `json:"units"`                        // number of cores or multiprocessors
	Arch  int    `json:"compute_capability,omitempty"` // 10*major+minor; GPUs only
	// size of the last cache that all units share
	CacheBytes  int    `json:"cache_bytes,omitempty"`
	MemoryBytes uint64 `json:"memory_bytes,omitempty"` // memory of the device
	Driver      string `json:"driver,omitempty"`
	Host        string `json:"host"` // name of the host's processor
	HostCores   int    `json:"host_cores"`
	OS          string `json:"os"`
	Go          string `json:"go"`
}

func hardware(dev device.Device) (Hardware, error) {
	mem, err := dev.Memory()
	if err != nil {
		return Hardware{}, err
	}
	p := dev.Properties()
	return Hardware{
		Kind: string(p.Kind), Name: p.Name, Units: p.Units, Arch: p.Arch, CacheBytes: p.L2,
		MemoryBytes: mem.Total, Driver: p.Driver,
		Host: hostName(), HostCores: runtime.NumCPU(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
	}, nil
}

// hostName returns the name of the processor if the system provides it, else the architecture.
func hostName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
