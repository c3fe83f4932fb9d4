package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weftgo/weft"
)

// Backup copies the store in folder dir to the folder to, which must be empty or not exist. The
// store may be open, in this process or in another one: the backup has every change that returned
// before the call, and may have later ones. It is a store itself. Files that the store never
// changes again are not copied but linked, where the file system can, so that a backup costs little
// time and space. Damage to the disk under such a file damages both: to be safe from it, back up to
// another disk. Backup returns [weft.ErrCorrupt] if the log is damaged. It does not read the
// checkpoint; Read does.
func Backup(ctx context.Context, dir, to string) error {
	if err := copyStore(ctx, dir, to, true); err != nil {
		return fmt.Errorf("durable: backup %s: %w", dir, err)
	}
	return nil
}

// Restore copies the backup in folder backup to the folder dir, which must be empty or not exist.
// It links no files, so later damage to one of them does not matter to the other. Its errors are
// those of [Backup].
func Restore(ctx context.Context, backup, dir string) error {
	if err := copyStore(ctx, backup, dir, false); err != nil {
		return fmt.Errorf("durable: restore %s: %w", backup, err)
	}
	return nil
}

func copyStore(ctx context.Context, dir, to string, link bool) (err error) {
	if _, err := readFile(osDir(dir), manifestName); err != nil {
		return err
	}
	from, target, err := folders(dir, to)
	if err != nil {
		return err
	}
	if _, err := os.Stat(string(target)); errors.Is(err, iofs.ErrNotExist) {
		defer func() {
			if err != nil { // so that nothing is left; fails if something is
				_ = os.Remove(string(target))
			}
		}()
	}
	if err := makeDir(string(target)); err != nil {
		return err
	}
	if err := mustBeEmpty(target, 0); err != nil {
		return err
	}
	lock, err := target.lock(false) // against a second copy to this folder
	if err != nil {
		return err
	}
	c := &copier{ctx: ctx, from: from, to: target}
	if link {
		c.link = func(name string) error { return os.Link(from.path(name), target.path(name)) }
	}
	if err = mustBeEmpty(target, 1); err == nil {
		if err = c.run(); err != nil {
			err = errors.Join(err, target.Remove(lockName))
		}
	}
	return errors.Join(err, lock.Close())
}

// mustBeEmpty returns an error if a folder has more than n files and folders.
func mustBeEmpty(dir osDir, n int) error {
	all, err := os.ReadDir(string(dir))
	if err == nil && len(all) > n {
		err = fmt.Errorf("%w: folder %s is not empty", weft.ErrOptions, dir)
	}
	return err
}

// folders returns the folders of a copy. The new one must not be inside the other.
func folders(dir, to string) (from, target osDir, err error) {
	dir, err = filepath.Abs(dir)
	if err == nil {
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return "", "", err
	}
	if inside, rerr := filepath.Rel(dir, to); rerr == nil && filepath.IsLocal(inside) {
		err = fmt.Errorf("%w: folder %s is the store itself, or inside it", weft.ErrOptions, to)
	}
	return osDir(dir), osDir(to), err
}

// copier copies the files of a store that may be open.
//
// Segments and checkpoints have their names only while they are complete. The store appends frames
// to one segment, the last or, until a checkpoint begins, the one before. So the copier begins with
// the newest segment: if that has frames, the earlier ones are final. The copy of a segment that is
// not final ends with its last whole frame. So a copy is a state in which the process that has the
// store could have ended.
type copier struct {
	ctx      context.Context
	from, to fileSystem
	// link makes a file in to that shares its data with the file of the same name in from. It may
	// be nil.
	link    func(name string) error
	created []string
}

func (c *copier) run() error {
	return withManifest(c.from, func(text []byte) error {
		err := c.copyAll(text)
		if err != nil {
			err = errors.Join(err, c.removeCreated())
		}
		return err
	})
}

// copyAll copies the files that a manifest names, and then the manifest.
func (c *copier) copyAll(text []byte) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	m, err := decodeManifest(text)
	if err != nil {
		return err
	}
	s, err := decodeShape(m.Shape)
	if err != nil {
		return err
	}
	s.store = m.Store
	l, err := list(c.from)
	if err != nil {
		return err
	}
	segments, err := m.segments(l)
	if err != nil {
		return err
	}
	if m.Checkpoint > 0 {
		if err := c.copyFile(checkpointName(m.Checkpoint)); err != nil {
			return err
		}
	}
	final := false
	for _, n := range slices.Backward(segments) {
		if final {
			err = c.copyFile(segmentName(n))
		} else {
			final, err = c.copyFrames(s, n)
		}
		if err != nil {
			return err
		}
	}
	if _, err := scanLog(c.to, s, segments, m.Sequence, m.Synced); err != nil {
		return err
	}
	// With a manifest but without the last segment, a backup would look complete.
	if err := c.to.SyncDir(); err != nil {
		return err
	}
	c.created = append(c.created, manifestName)
	return writeFile(c.to, manifestName, func(f file) error {
		_, err := f.WriteAt(text, 0)
		return err
	})
}

// copyFile links or copies a file that does not change, and makes the new one durable.
func (c *copier) copyFile(name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.link != nil && c.link(name) == nil {
		c.created = append(c.created, name)
		f, err := c.to.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	f, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	return c.write(name, io.NewSectionReader(f, 0, size))
}

// copyFrames copies the header and the whole frames at the beginning of a segment. It reports
// whether earlier segments are final. If whole frames follow a damaged one, copyFrames copies the
// whole segment, so that the scan of the copy judges the damage as Open does.
func (c *copier) copyFrames(s shape, number uint64) (final bool, err error) {
	r, err := openSegment(c.from, s, number)
	if err != nil {
		return false, err
	}
	defer r.Close()
	end, again := int64(0), false
	for {
		_, ok, err := r.next()
		if err = errors.Join(err, c.ctx.Err()); err != nil {
			return false, err
		}
		if ok {
			again = false
			continue
		}
		end = r.at
		_, later, err := r.search()
		if err != nil {
			return false, err
		}
		if !later {
			break
		}
		if again {
			end = r.size
			break
		}
		// A frame that was being written while it was read is whole now.
		r.at, r.buf, again = end, nil, true
	}
	final = end > segmentHeader || r.first > 0
	return final, c.write(segmentName(number), io.NewSectionReader(r.file, 0, end))
}

// write makes a file and its content durable, but not its name.
func (c *copier) write(name string, from *io.SectionReader) error {
	f, err := c.to.Create(name)
	if err != nil {
		return err
	}
	c.created = append(c.created, name)
	to, buffer := io.NewOffsetWriter(f, 0), make([]byte, max(1, min(from.Size(), 1<<20)))
	_, err = io.CopyBuffer(to, readerWithContext{c.ctx, from}, buffer)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removeCreated removes what an incomplete copy has left.
func (c *copier) removeCreated() (err error) {
	for _, name := range c.created {
		if rerr := c.to.Remove(name); !errors.Is(rerr, iofs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	c.created = nil
	return err
}

// readerWithContext returns the error of a context when it ends.
type readerWithContext struct {
	ctx context.Context
	io.Reader
}

func (r readerWithContext) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
