package hostmem

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func limit() int64 {
	root := os.DirFS("/")
	n := least(physical(root), cgroups(root))
	for _, resource := range []int{unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var r unix.Rlimit
		if unix.Getrlimit(resource, &r) == nil && r.Cur != unix.RLIM_INFINITY {
			n = least(n, clamp(uint64(r.Cur)))
		}
	}
	return n
}

// clamp returns a limit as an int64 that is not 0, even if the limit is 0.
func clamp(n uint64) int64 { return int64(min(max(n, 1), math.MaxInt64)) }

// physical returns the memory of the machine.
func physical(root fs.FS) int64 {
	for fields := range lines(root, "proc/meminfo") {
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil && n < math.MaxInt64>>10 {
				return n << 10
			}
		}
	}
	return 0
}

// lines yields the fields of each line of a file. If the file cannot be read, it yields nothing.
func lines(root fs.FS, name string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		text, _ := fs.ReadFile(root, name)
		for line := range strings.Lines(string(text)) {
			if !yield(strings.Fields(line)) {
				return
			}
		}
	}
}

// cgroups returns the least limit of the memory cgroups of the process and of their ancestors, as
// far as they are mounted.
func cgroups(root fs.FS) (n int64) {
	v2, v1 := cgroupPaths(root)
	for fields := range lines(root, "proc/self/mountinfo") {
		// 36 35 98:0 ROOT MOUNTPOINT rw,noatime master:1 … - TYPE SOURCE OPTIONS
		dash := slices.Index(fields, "-")
		if dash < 6 || len(fields) < dash+4 {
			continue
		}
		within, mount := unescape(fields[3]), unescape(fields[4])
		options := strings.Split(fields[dash+3], ",")
		switch {
		case fields[dash+1] == "cgroup2" && v2 != "":
			n = least(n, above(root, mount, within, v2, limitV2))
		case fields[dash+1] == "cgroup" && v1 != "" && slices.Contains(options, "memory"):
			n = least(n, above(root, mount, within, v1, limitV1))
		}
	}
	return n
}

// cgroupPaths returns two cgroups of the process: the one of version 2, and the one of version 1
// that limits memory. A missing cgroup is "".
func cgroupPaths(root fs.FS) (v2, v1 string) {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		// HIERARCHY:CONTROLLERS:PATH
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			v1 = parts[2]
		}
	}
	return v2, v1
}

// unescape replaces the escape sequences of mountinfo, such as \040.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// above returns the least limit of a cgroup and of its ancestors up to the root of the mount. The
// mount shows the cgroup named within, and its descendants. If the given cgroup is not among them,
// as in containers without a cgroup namespace, above starts at the mounted one.
func above(root fs.FS, mount, within, cgroup string,
	limit func(root fs.FS, dir string, top bool) int64) (n int64) {
	below, inside := strings.CutPrefix(path.Clean(cgroup), strings.TrimSuffix(within, "/"))
	if !inside || below != "" && below[0] != '/' || strings.Contains(cgroup, "..") {
		below = ""
	}
	mount = strings.Trim(path.Clean(mount), "/")
	own := path.Join(mount, below)
	for dir := own; ; dir = path.Dir(dir) {
		n = least(n, limit(root, dir, dir == own))
		if dir == mount || len(dir) <= len(mount) {
			return n
		}
	}
}

// limitV2 returns the least limit of a cgroup of version 2.
func limitV2(root fs.FS, dir string, _ bool) int64 {
	return least(number(root, dir+"/memory.max"), number(root, dir+"/memory.high"))
}

// limitV1 returns the limit of a cgroup of version 1. For the process's own cgroup, the kernel also
// reports the least limit of its ancestors, including those outside the mount. Another cgroup
// counts only if it is hierarchical, as all are since Linux 5.11.
func limitV1(root fs.FS, dir string, own bool) (n int64) {
	if own {
		for fields := range lines(root, dir+"/memory.stat") {
			if len(fields) == 2 && fields[0] == "hierarchical_memory_limit" {
				n = parseLimit(fields[1])
			}
		}
	} else if text, err := fs.ReadFile(root, dir+"/memory.use_hierarchy"); err == nil &&
		strings.TrimSpace(string(text)) == "0" {
		return 0
	}
	return least(n, number(root, dir+"/memory.limit_in_bytes"))
}

// number returns the limit in a file; 0: none.
func number(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	return parseLimit(strings.TrimSpace(string(text)))
}

// parseLimit parses a limit. For "max", and for other text that is not a number, it returns 0.
func parseLimit(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return clamp(n)
}
