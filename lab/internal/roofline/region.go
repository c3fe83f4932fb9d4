package roofline

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// units are what regions are counted in, 1024 of each make one of the next.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// In names a limit that was measured in a region of so many bytes, a power of
// two: "read16@64MiB". An experiment that measures a limit in several regions
// tells them apart so.
func In(limit string, region int) string {
	shift := bits.Len(uint(region)) - 1
	return fmt.Sprintf("%s@%d%s", limit, 1<<(shift%10), units[shift/10])
}

// Split takes a name apart that In has made. Of other names it returns all,
// and no region.
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
