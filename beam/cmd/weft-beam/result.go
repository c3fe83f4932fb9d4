package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"strings"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft/beam"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/table/flags"
)

func init() {
	register.DoFn2x0[[]byte, func(int, []byte)](&dealBlocks{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&blockFile{})
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// result names the files that workers write and this process reads.
type result struct {
	prefix string // prefix of file names
	folder string // temporary folder to remove; empty if none
}

// newResult returns a result with files in folder, or in a new temporary folder if folder is empty.
func newResult(ctx context.Context, folder string) (*result, error) {
	if folder == "" {
		made, err := os.MkdirTemp("", "weft-beam-")
		return &result{prefix: made + "/part", folder: made}, err
	}
	system, err := filesystem.New(ctx, folder)
	if err != nil {
		return nil, usage("--temp-location %s: %w", folder, err)
	}
	prefix := fmt.Sprintf("%s/weft-beam-%016x", strings.TrimSuffix(folder, "/"), rand.Uint64())
	return &result{prefix: prefix}, system.Close()
}

func (r *result) write(s sdk.Scope, blocks sdk.PCollection) {
	s = s.Scope("weft.Result")
	dealt := sdk.ParDo(s, &dealBlocks{}, blocks)
	sdk.ParDo0(s, &blockFile{Prefix: []byte(r.prefix)}, sdk.GroupByKey(s, dealt))
}

// resultFiles is the number of files of a result, which workers write concurrently.
const resultFiles = 8

// dealBlocks is the DoFn that assigns blocks to files.
type dealBlocks struct{ dealt bool }

// StartBundle begins a bundle without blocks.
func (f *dealBlocks) StartBundle(func(int, []byte)) { f.dealt = false }

// ProcessElement assigns a block to a file by a checksum of its bytes, so a bundle that runs again
// assigns it to the same file. On the first block of a bundle, it also sends each file an empty
// element, so that all files exist.
func (f *dealBlocks) ProcessElement(block []byte, emit func(int, []byte)) {
	if !f.dealt {
		for i := range resultFiles {
			emit(i, nil)
		}
		f.dealt = true
	}
	emit(int(crc32.ChecksumIEEE(block)%resultFiles), block)
}

// blockFile is the DoFn that writes blocks to a file. A length precedes each block.
type blockFile struct{ Prefix []byte } // JSON changes strings that are not UTF-8

// ProcessElement writes a file.
func (f *blockFile) ProcessElement(ctx context.Context, file int, next func(*[]byte) bool) error {
	name := fileName(string(f.Prefix), file)
	system, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer system.Close()
	to, err := system.OpenWrite(ctx, name)
	if err == nil {
		w := bufio.NewWriterSize(to, 1<<16)
		var b []byte
		for err == nil && next(&b) {
			if len(b) == 0 {
				continue
			}
			_, err = w.Write(binary.AppendUvarint(nil, uint64(len(b))))
			if err == nil {
				_, err = w.Write(b)
			}
		}
		err = errors.Join(err, w.Flush(), to.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// fileName returns the name of a file, which is never a pattern.
func fileName(prefix string, file int) string { return fmt.Sprintf("%s-%d.blocks", prefix, file) }

// pages yields the columns of each block. All files must exist.
func (r *result) pages(ctx context.Context) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		system, err := filesystem.New(ctx, r.prefix)
		if err != nil {
			yield(nil, fmt.Errorf("read the result: %w", err))
			return
		}
		defer system.Close()
		for i := range resultFiles {
			name := fileName(r.prefix, i)
			more, err := readBlocks(ctx, system, name, yield)
			if err != nil {
				yield(nil, fmt.Errorf("read the result, %s: %w", name, flags.Reason(err)))
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// readBlocks yields the columns of each block of a file. more reports whether to continue.
func readBlocks(
	ctx context.Context, system filesystem.Interface, name string,
	yield func([]column.Column, error) bool,
) (more bool, err error) {
	f, err := system.OpenRead(ctx, name)
	if err != nil {
		return false, fmt.Errorf("%w; --temp-location must be a folder that all workers and "+
			"this machine can open", flags.Reason(err))
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for ctx.Err() == nil {
		n, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var b strings.Builder // grows with the bytes read, not with a damaged length
		if _, err := io.CopyN(&b, in, int64(n)); err != nil {
			return false, err
		}
		_, columns, err := beam.DecodeColumns([]byte(b.String()))
		if err != nil {
			return false, err
		}
		if !yield(columns, nil) {
			return false, nil
		}
	}
	return false, ctx.Err()
}

func (r *result) remove(ctx context.Context) error {
	if r.folder != "" {
		return os.RemoveAll(r.folder)
	}
	system, err := filesystem.New(ctx, r.prefix)
	if err != nil {
		return fmt.Errorf("remove the result: %w", err)
	}
	defer system.Close()
	remover, ok := system.(filesystem.Remover)
	for i := 0; ok && i < resultFiles; i++ {
		name := fileName(r.prefix, i)
		f, missing := system.OpenRead(ctx, name)
		if missing == nil { // a failed job may not have written the file
			err = errors.Join(err, f.Close(), remover.Remove(ctx, name))
		}
	}
	return err
}
