package pool

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckPMem says whether what is fenced in the memory at a path survives a power
// failure, and in which domain. Only the memory of a device (devdax) can: a file's
// would need MAP_SYNC, and GPUs cannot map such files, whose pages drivers are not
// allowed to pin for long. Error: [ErrNotDurable], with the condition that is not met.
func CheckPMem(path string, said Asserted) (Domain, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Lstat(path, &stat) }); err != nil {
		return "", fmt.Errorf("pool: %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", fmt.Errorf("pool: %s: %w: not a character device; per operation, only memory of devdax outlives a power failure", path, ErrNotDurable)
	}
	rdev := uint64(stat.Rdev)
	domain, err := checkPMem("/sys", unix.Major(rdev), unix.Minor(rdev), said)
	if err != nil {
		return "", fmt.Errorf("pool: %s: %w", path, err)
	}
	return domain, nil
}
