package durable

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/weftgo/weft/internal/core"
)

// Read returns the content of the store in folder dir as a structure that is not durable. It
// changes no file; if LOCK is missing, it makes one. make returns an empty structure, as for
// [Open]. Of opts, Read uses Repair, Progress and Logger. While a program has the store open, Read
// returns [ErrLocked]; other readers do not matter. See [Open] for the other errors.
func Read[M Structure](ctx context.Context, dir string, make func() (M, error), opts Options) (m M, found Recovery, err error) {
	fail := func(err error) (M, Recovery, error) {
		var none M
		return none, found, fmt.Errorf("durable: read %s: %w", dir, err)
	}
	if opts, err = opts.check(); err != nil {
		return fail(err)
	}
	path, err := filepath.Abs(dir) // the program may change its directory
	if err == nil {
		_, err = readFile(osDir(path), manifestName)
	}
	if err != nil {
		return fail(err)
	}
	lock, err := osDir(path).lock(true)
	if err != nil {
		return fail(err)
	}
	defer lock.Close()
	if m, err = make(); err != nil {
		return fail(err)
	}
	if found, err = read(ctx, osDir(path), core.LoggedOf(m), opts); err != nil {
		return fail(errors.Join(err, m.Close()))
	}
	return m, found, nil
}

// read fills a structure with the content of a store.
func read(ctx context.Context, fs fileSystem, table core.Logged, opts Options) (Recovery, error) {
	s := &store{fs: fs, opts: opts, table: table}
	shape, err := shapeOf(table)
	if err != nil {
		return s.found, err
	}
	l, err := list(fs)
	if err == nil {
		s.manifest, err = readManifest(fs, shape)
	}
	if err == nil {
		shape.store = s.manifest.Store
		_, err = s.load(ctx, shape, l)
	}
	return s.found, err
}
