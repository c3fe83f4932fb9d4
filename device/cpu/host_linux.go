package cpu

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/device"
)

// processorName returns the model name of the first core, or else the architecture.
func processorName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH // kernels of arm64 report no model
}

// lastLevelCache returns the size in bytes of the first core's last cache, or 0 if unknown.
func lastLevelCache() int {
	size, highest := 0, 0
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	for _, dir := range dirs {
		level, err := strconv.Atoi(readLine(filepath.Join(dir, "level")))
		if err != nil || level < highest {
			continue
		}
		if n := parseCacheSize(readLine(filepath.Join(dir, "size"))); n > 0 {
			size, highest = n, level
		}
	}
	return size
}

// parseCacheSize returns the bytes in a text such as "49152K" or "32M", or 0 if s has another form.
func parseCacheSize(s string) int {
	unit := 1
	switch {
	case strings.HasSuffix(s, "K"):
		unit = 1 << 10
	case strings.HasSuffix(s, "M"):
		unit = 1 << 20
	}
	n, err := strconv.Atoi(strings.TrimRight(s, "KM"))
	if err != nil {
		return 0
	}
	return n * unit
}

// readMemory reads the memory of the machine, or a lower limit of the container or the process.
func readMemory() device.Memory {
	m := machineMemory()
	// Field 0 of statm counts all pages of addresses, field 5 the pages of data and stack.
	pages := strings.Fields(readLine("/proc/self/statm"))
	for resource, field := range map[int]int{unix.RLIMIT_AS: 0, unix.RLIMIT_DATA: 5} {
		var limit unix.Rlimit
		if unix.Getrlimit(resource, &limit) != nil || limit.Cur >= m.Total || field >= len(pages) {
			continue
		}
		used, err := strconv.ParseUint(pages[field], 10, 64)
		if err != nil {
			continue
		}
		used *= uint64(os.Getpagesize())
		m = device.Memory{Free: min(m.Free, limit.Cur-min(used, limit.Cur)), Total: limit.Cur}
	}
	return m
}

// machineMemory reads the memory of the machine, or of the container if that is less.
func machineMemory() device.Memory {
	info := readFields("/proc/meminfo")
	m := device.Memory{Free: info["MemAvailable"] << 10, Total: info["MemTotal"] << 10}
	// In a container this file holds the limit of its own group. The root group lacks the file.
	limit, err := strconv.ParseUint(readLine("/sys/fs/cgroup/memory.max"), 10, 64)
	if err != nil || limit >= m.Total {
		return m
	}
	used, err := strconv.ParseUint(readLine("/sys/fs/cgroup/memory.current"), 10, 64)
	if err != nil {
		return m
	}
	// The used bytes include file pages that were not used lately, which the kernel can reclaim.
	used -= min(used, readFields("/sys/fs/cgroup/memory.stat")["inactive_file"])
	return device.Memory{Free: min(m.Free, limit-min(used, limit)), Total: limit}
}

// readFields parses lines that consist of a name, an optional colon, and a number.
func readFields(path string) map[string]uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	fields := make(map[string]uint64)
	for line := range bytes.Lines(data) {
		if f := strings.Fields(string(line)); len(f) >= 2 {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				fields[strings.TrimSuffix(f[0], ":")] = n
			}
		}
	}
	return fields
}

// readLine returns the content of a one-line file, or "" if it cannot be read.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
