package roofline

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// units are the units of region sizes. Each is 1024 times the previous one.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// In returns the name of a limit that was measured in a region: "read16@64MiB". The size of the
// region is a power of two in bytes. The name distinguishes several regions in which an experiment
// measures the same limit.
func In(limit string, region int) string {
	shift := bits.Len(uint(region)) - 1
	return fmt.Sprintf("%s@%d%s", limit, 1<<(shift%10), units[shift/10])
}

// Split splits a name that In has returned. It returns any other name as it is, with region 0.
func Split(name string) (limit string, region int) {
	limit, size, found := strings.Cut(name, "@")
	if !found {
		return name, 0
	}
	digits := strings.TrimRight(size, "BKMGTi")
	n, err := strconv.Atoi(digits)
	unit := slices.Index(units, size[len(digits):])
	if err != nil || unit < 0 {
		return name, 0
	}
	return limit, n << (10 * unit)
}
