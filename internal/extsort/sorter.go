// Package extsort sorts pages of columns that may exceed memory.
//
// A [Sorter] keeps pages until they reach its limit of memory. It then sorts them and writes them
// as a run to a temporary file. At the end it merges the runs. Rows that stay below the limit are
// sorted in memory by [Order], without a file.
package extsort

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/spill"
)

// Options are options of [New].
type Options struct {
	// Keys are the columns to sort by, most significant first. Rows that are equal in all keys keep
	// the order of Add.
	Keys []Key

	// Top is the maximum number of rows that Pages returns. The sorter drops others early. 0: all
	// rows.
	Top int

	// Memory bounds, in bytes, the pages in memory and the work on them. The page passed to Add,
	// and the page that Pages has returned, do not count. A single row may exceed the bound. 0: no
	// bound, and no file.
	Memory int64

	// TempDir is the directory of the temporary file; see spill.Create.
	TempDir string

	// File, if set, holds the runs instead of a file in TempDir. It must have buffers for 65
	// chains.
	File *spill.File

	// Wrap has the meaning of spill.Options.Wrap.
	Wrap func(spill.Disk) spill.Disk
}

const (
	// PageRows is the maximum number of rows of a page that Pages returns.
	PageRows = 1 << 16

	// topSlack is the number of rows kept in addition to 2*Top before rows are dropped.
	topSlack = PageRows

	// Order needs rowBytes per row. Each key with Transform needs transformBytes more.
	rowBytes, transformBytes = 64, 32
)

// Sorter sorts pages of columns. Only one goroutine may use it at a time.
type Sorter struct {
	dev  device.Host
	opts Options

	pages [][]column.Column // pages that are not in a run
	rows  int               // rows of pages
	cost  int64             // bytes that pages take while they are sorted

	file *spill.File
	runs []*spill.Chain
	buf  []byte
	err  error // the error of all later calls

	longest int // bytes of the longest page in the runs
}

// New returns a sorter without rows. The caller must close it.
func New(dev device.Host, o Options) *Sorter { return &Sorter{dev: dev, opts: o, file: o.File} }

// Add adds the rows of a page. Its columns must have one length, and the types of the first page.
// The sorter keeps the columns, so they must not change. After an error, all later calls return it.
func (s *Sorter) Add(ctx context.Context, page []column.Column) error {
	if s.err == nil && len(page) > 0 {
		s.err = s.add(ctx, page)
	}
	return s.err
}

func (s *Sorter) add(ctx context.Context, page []column.Column) error {
	n := page[0].Len()
	page, err := spill.ExpandDictionaries(page, n)
	if err != nil {
		return err
	}
	perRow := s.costOf(page)/int64(max(n, 1)) + 1
	for lo := 0; lo < n; {
		k := n - lo
		if s.opts.Memory > 0 {
			k = int(min(int64(k), max(s.opts.Memory/2-s.cost, 0)/perRow))
			if k == 0 && s.rows > 0 {
				if err := s.shrink(ctx); err != nil {
					return err
				}
				continue
			}
			k = max(k, 1)
		}
		if uint64(s.rows)+uint64(k) > math.MaxUint32 {
			return fmt.Errorf("%w: more than %d rows to sort in memory; set a limit of memory",
				device.ErrInvalid, uint32(math.MaxUint32))
		}
		s.pages = append(s.pages, spill.Slice(page, lo, lo+k))
		s.rows += k
		s.cost += int64(k) * perRow
		lo += k
		if s.opts.Top > 0 && s.rows-topSlack >= 2*s.opts.Top {
			if err := s.compact(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// costOf returns the bytes that a page takes while it is sorted: twice its size, because pages are
// joined, and the scratch of Order.
func (s *Sorter) costOf(page []column.Column) int64 {
	rows := int64(page[0].Len())
	cost := rows*rowBytes + 2*size(page...)
	for _, k := range s.opts.Keys {
		if k.Transform != nil {
			cost += size(page[k.Column]) + rows*transformBytes
		}
	}
	return cost
}

// size returns the approximate bytes of a page in memory.
func size(page ...column.Column) int64 {
	n := spill.Bytes(page)
	for _, c := range page {
		if c.HasNulls() {
			n += int64(c.Len())
		}
	}
	return n
}

// shrink frees memory for more pages: it drops rows beyond Top, or writes a run.
func (s *Sorter) shrink(ctx context.Context) error {
	if s.opts.Top > 0 && s.rows > s.opts.Top {
		if err := s.compact(ctx); err != nil || s.cost <= s.opts.Memory/4 {
			return err
		}
	}
	return s.spill(ctx)
}

// sorted joins the pages in memory, and returns them with the row numbers in order, at most Top.
func (s *Sorter) sorted(ctx context.Context) ([]column.Column, []uint32, error) {
	columns, err := spill.Join(s.pages)
	if err != nil {
		return nil, nil, err
	}
	s.pages = append(s.pages[:0], columns)
	perm, err := Order(ctx, s.dev, columns, s.opts.Keys)
	if err == nil && s.opts.Top > 0 {
		perm = perm[:min(s.opts.Top, len(perm))]
	}
	return columns, perm, err
}

// compact drops all rows but the first Top.
func (s *Sorter) compact(ctx context.Context) error {
	columns, perm, err := s.sorted(ctx)
	if err != nil {
		return err
	}
	s.pages[0] = spill.Take(s.dev, columns, perm)
	s.rows, s.cost = len(perm), s.costOf(s.pages[0])
	return nil
}

// spill writes the rows in memory as a run.
func (s *Sorter) spill(ctx context.Context) error {
	if s.file == nil {
		var err error
		s.file, err = spill.Create(s.opts.TempDir, &spill.Options{
			Memory: max(s.opts.Memory/8, (maxRuns+1)*16<<10), Chains: maxRuns + 1, Wrap: s.opts.Wrap})
		if err != nil {
			return err
		}
	}
	columns, perm, err := s.sorted(ctx)
	if err != nil {
		return err
	}
	run := s.file.Chain()
	s.runs = append(s.runs, run)
	s.pages, s.rows, s.cost = nil, 0, 0
	if err := s.takeInPages(ctx, columns, perm, func(page []column.Column) error {
		return s.write(run, page)
	}); err != nil {
		return err
	}
	return run.Flush()
}

// takeInPages calls f with the given rows of columns, page by page.
func (s *Sorter) takeInPages(ctx context.Context, columns []column.Column, rows []uint32,
	f func([]column.Column) error) error {
	for len(rows) > 0 {
		n := min(PageRows, len(rows))
		if err := f(spill.Take(s.dev, columns, rows[:n])); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

var errStopped = errors.New("the caller has seen enough")

// Pages iterates over all rows in order, in pages of at most PageRows rows. The last pair holds the
// error, if any. The iteration may be repeated, and rows may be added afterwards.
func (s *Sorter) Pages(ctx context.Context) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		if s.err != nil {
			yield(nil, s.err)
			return
		}
		err := s.emitPages(ctx, func(page []column.Column) error {
			if !yield(page, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			s.err = err
			yield(nil, err)
		}
	}
}

// emitPages calls f with the pages of the result.
func (s *Sorter) emitPages(ctx context.Context, f func([]column.Column) error) error {
	switch {
	case len(s.runs) > 0:
		if s.rows > 0 {
			if err := s.spill(ctx); err != nil {
				return err
			}
		}
		return s.merge(ctx, f)
	case s.rows > 0:
		columns, perm, err := s.sorted(ctx)
		if err != nil {
			return err
		}
		return s.takeInPages(ctx, columns, perm, f)
	}
	return ctx.Err()
}

// Spilled returns the number of bytes written to the temporary file. For Options.File it returns 0,
// because that file has its own statistics.
func (s *Sorter) Spilled() int64 {
	if s.file == nil || s.file == s.opts.File {
		return 0
	}
	return s.file.Stats().Written
}

// Close frees the memory and the temporary file. Later calls return an error. Close is idempotent.
func (s *Sorter) Close() error {
	file, runs := s.file, s.runs
	s.pages, s.runs, s.file, s.err = nil, nil, nil, errClosed
	if file == nil {
		return nil
	}
	if file != s.opts.File {
		return file.Close()
	}
	var err error
	for _, c := range runs {
		err = errors.Join(err, c.Free())
	}
	return err
}
