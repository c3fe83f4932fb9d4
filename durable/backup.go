package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/weftgo/weft"
)

// Backup copies the store in folder dir to the folder to, which must be empty or not exist. The
// store may be open, in this process or in another one: the backup has every change that returned
// before the call, and may have later ones. It is a store itself. Files that the store never
// changes again are not copied but linked, where the file system can, so that a backup costs little
// time and space. Damage to the disk under such a file damages both: to be safe from it, back up to
// another disk. Backup returns [weft.ErrCorrupt] if the log is damaged.
func Backup(ctx context.Context, dir, to string) error {
	if err := copyStore(ctx, dir, to, true); err != nil {
		return fmt.Errorf("durable: backup %s: %w", dir, err)
	}
	return nil
}

// Restore copies the backup in folder backup to the folder dir, which must be empty or not exist.
// It links no files, so later damage to one of them does not matter to the other.
func Restore(ctx context.Context, backup, dir string) error {
	if err := copyStore(ctx, backup, dir, false); err != nil {
		return fmt.Errorf("durable: restore %s: %w", backup, err)
	}
	return nil
}

func copyStore(ctx context.Context, dir, to string, link bool) error {
	from, target := osDir(filepath.Clean(dir)), osDir(filepath.Clean(to))
	if _, err := readFile(from, manifestName); err != nil {
		return err
	}
	if err := makeDir(string(target)); err != nil {
		return err
	}
	if names, err := target.List(); err != nil || len(names) > 0 {
		if err == nil {
			err = fmt.Errorf("%w: folder %s is not empty", weft.ErrOptions, to)
		}
		return err
	}
	c := copier{ctx: ctx, from: from, to: target}
	if link {
		c.link = func(name string) error { return os.Link(from.path(name), target.path(name)) }
	}
	return c.run()
}

// copier copies the files of a store that may be open.
//
// Segments and checkpoints have their names only while they are complete, and the store appends
// frames only to its last segment. The copy of that segment ends with the last frame that is whole
// when it is read. So a copy is a state in which the process that has the store could have ended.
// If a checkpoint removes files before they are copied, run begins again.
type copier struct {
	ctx      context.Context
	from, to fileSystem
	// link makes a file in to that shares its data with the file of the same name in from. It may
	// be nil.
	link func(name string) error
}

func (c copier) run() error {
	for {
		text, err := readFile(c.from, manifestName)
		if err != nil {
			return err
		}
		if err = c.copyAll(text); err == nil {
			return nil
		}
		err = errors.Join(err, c.removeAll(), c.ctx.Err())
		now, rerr := readFile(c.from, manifestName)
		if rerr != nil || string(now) == string(text) || c.ctx.Err() != nil {
			return errors.Join(err, rerr)
		}
	}
}

// copyAll copies the files that a manifest names, and then the manifest.
func (c copier) copyAll(text []byte) error {
	m, err := decodeManifest(text)
	if err != nil {
		return err
	}
	s, err := decodeShape(m.Shape)
	if err != nil {
		return err
	}
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
	last := len(segments) - 1
	for _, n := range segments[:last] {
		if err := c.copyFile(segmentName(n)); err != nil {
			return err
		}
	}
	if err := c.copyFrames(s, segments[last]); err != nil {
		return err
	}
	if _, err := scanLog(c.to, s, segments, m.Sequence, m.Synced); err != nil {
		return err
	}
	// With a manifest but without the last segment, a backup would look complete.
	if err := c.to.SyncDir(); err != nil {
		return err
	}
	return writeFile(c.to, manifestName, func(f file) error {
		_, err := f.WriteAt(text, 0)
		return err
	})
}

// copyFile links or copies a file that does not change, and makes the new one durable.
func (c copier) copyFile(name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.link != nil && c.link(name) == nil {
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

// copyFrames copies the header and the whole frames at the beginning of a segment.
func (c copier) copyFrames(s shape, number uint64) error {
	r, err := openSegment(c.from, s, number)
	if err != nil {
		return err
	}
	defer r.Close()
	for ok := true; ok; {
		if _, ok, err = r.next(); err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	return c.write(segmentName(number), io.NewSectionReader(r.file, 0, r.at))
}

// write makes a file and its content durable, but not its name.
func (c copier) write(name string, from io.Reader) error {
	f, err := c.to.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(io.NewOffsetWriter(f, 0), readerWithContext{c.ctx, from}, make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removeAll removes what an incomplete copy has left.
func (c copier) removeAll() error {
	names, err := c.to.List()
	for _, name := range names {
		if rerr := c.to.Remove(name); !errors.Is(rerr, iofs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
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
