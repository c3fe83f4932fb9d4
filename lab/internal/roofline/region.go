package roofline

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// units are the units of region sizes. Each is 1024 times the one before.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// In returns the name of a limit measured in a region of a size in bytes, a power of two:
// "read16@64MiB". It distinguishes the regions in which an experiment measures a limit.
func In(limit string, region int) string {
	shift := bits.Len(uint(region)) - 1
	return fmt.Sprintf("%s@%d%s", limit, 1<<(shift%10), units[shift/10])
}

// Split splits a name that In has made. Other names are returned whole, without a region.
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
