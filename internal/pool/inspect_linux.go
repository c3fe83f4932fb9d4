package pool

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// Inspect reads both superblocks of a file, whoever has it open, and writes nothing.
// It fails if the file cannot be read; what is wrong with its content is in Info. Of a
// pool that is being changed, a copy may look torn.
func Inspect(path string) (Info, error) {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Info{}, fmt.Errorf("pool: inspect: %w", err)
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f.Fd()), &stat) }); err != nil {
		return Info{}, fmt.Errorf("pool: inspect %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, fmt.Errorf("pool: inspect %s: %w: not a regular file", path, op.ErrFormat)
	}
	var system unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &system) }); err != nil {
		return Info{}, fmt.Errorf("pool: inspect %s: %w", path, err)
	}
	info := Info{Grants: durabilityOn(int64(system.Type)), Size: stat.Size, Allocated: stat.Blocks * 512, Copies: readCopies(f)}
	info.Chosen, info.Err = choose(&info.Copies, uint64(stat.Size))
	return info, nil
}
