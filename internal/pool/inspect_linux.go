package pool

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
)

// Inspect reads both superblocks of a file, even of an open pool, and writes nothing. It returns an
// error only if the file cannot be read. Damage is described in Info. While the pool is being
// changed, a copy may look torn.
func Inspect(path string) (Info, error) {
	f, err := openPath(path, unix.O_RDONLY)
	if err != nil {
		return Info{}, fmt.Errorf("pool: inspect %s: %w", path, err)
	}
	defer f.Close()
	info, err := inspect(&file{f: f, readOnly: true})
	if err != nil {
		return Info{}, fmt.Errorf("pool: inspect %s: %w", path, err)
	}
	return info, nil
}

func inspect(f *file) (info Info, err error) {
	stat, err := f.stat()
	if err != nil {
		return info, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFCHR:
		f.device = true
	default:
		return info, fmt.Errorf("%w: %s, not a pool", op.ErrFormat, kindOf(stat.Mode))
	}
	err = f.readAttributes(Requirements{})
	refused := errors.Is(err, ErrNotDurable) // the file can still be read
	if err != nil && !refused {
		return info, err
	}
	if f.device {
		if err := f.mapFile(); err != nil {
			return info, err
		}
		defer unix.Munmap(f.mapped)
	}
	info = Info{Durability: f.durability(), Size: f.size, Allocated: stat.Blocks * 512, Copies: readCopies(f)}
	if f.device {
		info.Allocated = f.size
	}
	if info.Current, info.Err = chooseCopy(&info.Copies, uint64(f.size)); info.Err == nil && refused {
		info.Err = err
	}
	info.PowerLost = info.Current >= 0 && f.powerLost(&info.Copies[info.Current].Superblock)
	return info, nil
}
