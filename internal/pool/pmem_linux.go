package pool

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// If the file must provide the durability [PMem], setPersist checks that it does and sets
// f.persist. A device must always provide it. Only the memory of a device (devdax) reports its
// persistence. A file would need MAP_SYNC, and GPUs cannot map such files, because drivers must not
// pin their pages for long. The error is [ErrNotDurable] with the condition that is not met.
func (f *file) setPersist(stat *unix.Stat_t, req Requirements) error {
	if !req.PMem && !f.device {
		return nil
	}
	domain, err := domainOf(stat, req)
	if err == nil {
		f.persist, err = pm.HostPersist(domain != MemoryController)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrNotDurable, err)
		}
	}
	return err
}

// domainOf returns the persistence domain of a file's memory. stat is nil if the file does not
// exist yet. If the system reports the domain of a device, the report takes precedence over
// assertions.
func domainOf(stat *unix.Stat_t, req Requirements) (Domain, error) {
	if stat != nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR {
		domain, err := checkPMem(unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev)), req)
		if err == nil || !req.Asserted.Persistent {
			return domain, err
		}
	}
	switch {
	case !req.Asserted.Persistent:
		return notDurable("not a character device: single operations survive a power failure only in devdax memory, or in memory that is asserted to be persistent")
	case req.GPU && !req.Asserted.DDIOOff:
		return notDurable("no assertion that DDIO is off for the GPU's root port")
	}
	return MemoryController, nil
}

// deviceSize returns the size of a device's memory, as sysfs reports it, rounded down to whole
// pages.
func deviceSize(stat *unix.Stat_t) (int64, error) {
	name := filepath.Join(deviceOf(unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev))), "size")
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("%w: a character device, but not one of memory: %v", op.ErrFormat, err)
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(text)), 0, 64)
	if err != nil || size < 0 || size > math.MaxInt {
		return 0, fmt.Errorf("%w: %s: %q is not a size", op.ErrFormat, name, text)
	}
	return size / Page * Page, nil
}

func createOnDevice(path string, s *Superblock, req Requirements) (*Pool, error) {
	f, err := openFile(path, unix.O_RDWR, false, req)
	if err != nil {
		return nil, err
	}
	p, err := f.formatDevice(s)
	if err != nil {
		f.close()
		return nil, err
	}
	return p, nil
}

func (f *file) formatDevice(s *Superblock) (*Pool, error) {
	if err := f.mapFile(); err != nil {
		return nil, err
	}
	if uint64(f.size) < s.Size {
		return nil, fmt.Errorf("%w: %d bytes wanted, the device has %d", unix.ENOSPC, s.Size, f.size)
	}
	for i := range 2 {
		if string(f.mapped[i*copyB:][:len(magic)]) == magic {
			return nil, fmt.Errorf("%w: the device has a pool", os.ErrExist)
		}
	}
	m := f.memory()
	erase(m, s)
	p, err := Format(m, s)
	if err != nil {
		return nil, err
	}
	p.attach(f)
	return p, nil
}

// erase zeroes the superblocks and then the levels and areas, so that Format can use memory with
// other contents.
func erase(m *pm.Memory, s *Superblock) {
	for i := range 2 {
		m.Clear(wordOf(i), wordOf(i)+blockSize/pm.Word)
	}
	m.Fence()
	for _, l := range s.Levels {
		m.Clear(l.Offset/pm.Word, (l.Offset+l.Length)/pm.Word)
	}
	for _, a := range s.Areas {
		m.Clear(a.Offset/pm.Word, (a.Offset+a.Length)/pm.Word)
	}
}
