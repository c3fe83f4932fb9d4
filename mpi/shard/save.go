package shard

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
)

// Save writes the shards of all ranks to a folder that all ranks must see, and returns the number
// of keys. Each rank writes its own file, which a structure in a single process can load, too. Rank
// 0 then writes the manifest, which lists the files, and removes files of other Saves. If a Save
// fails earlier, the previous manifest and its files remain, and a later Save removes the new
// files.
//
// The folder holds one structure. Batches that follow a Save must be repeated after a restart.
func (t *table[K]) Save(ctx context.Context, dir string) (n int, err error) {
	r := t.r
	x := t.open(methodSave)
	defer x.close()
	clear(x.sent)
	r.head[headArg] = rand.Uint64()
	if x.agree(ctx, nil, false); x.err != nil {
		return x.endEmpty()
	}
	// All ranks use the number of rank 0, so that files of different Saves have different names.
	save := r.word(0, headArg)
	f := shardFile{Name: fileName(save, r.rank)}
	x.apply(ctx, func(ctx context.Context) (int, error) {
		return 0, errors.Join(os.MkdirAll(dir, 0o777), f.create(dir, func(w io.Writer) (err error) {
			f.Keys, err = t.shard.Save(ctx, w)
			return err
		}))
	})
	if _, err := x.endEmpty(); err != nil {
		return 0, errors.Join(err, ignoreAbsent(os.Remove(filepath.Join(dir, f.Name))))
	}
	x.ended = false
	n, err = t.publish(x, dir, save, f)
	x.ended = true
	return n, err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// publish gathers the descriptions of all files, and rank 0 writes the manifest.
func (t *table[K]) publish(
	x *exchange, dir string, save uint64, f shardFile,
) (keys int, err error) {
	r := t.r
	const words = 6 // keys, bytes, and four words of the digest
	own, all := make([]uint64, words), make([]uint64, words*r.size)
	own[0], own[1] = uint64(f.Keys), uint64(f.Bytes)
	sum, err := hex.DecodeString(f.SHA256)
	for i := range own[2:] {
		own[2+i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	if err := errors.Join(err, r.comm.AllGather(context.Background(), own, all)); err != nil {
		return 0, r.commError(err)
	}
	m := manifest{Format: manifestFormat, Keys: column.TypeOf[K](), Values: t.vals,
		Positions: t.owners.name()}
	for rank := range r.size {
		of := all[rank*words:][:words]
		f := shardFile{Name: fileName(save, rank), Keys: int(of[0]), Bytes: int64(of[1])}
		f.First, f.Last = t.owners.span(rank, r.size)
		sum = sum[:0]
		for _, w := range of[2:] {
			sum = binary.BigEndian.AppendUint64(sum, w)
		}
		f.SHA256 = hex.EncodeToString(sum)
		m.Files, keys = append(m.Files, f), keys+f.Keys
	}
	if r.rank == 0 {
		err = m.replace(dir)
	}
	_, err = r.outcome(err, 0)
	return keys, err
}

// Load adds the keys in a folder that Save wrote, as Put would, and returns their number. Another
// number of ranks may have saved them: each rank reads the files that contain its own keys. All
// ranks must see the folder. If files are damaged or have other types, the error is
// [weft.ErrFormat], and some keys may have been added.
func (t *table[K]) Load(ctx context.Context, dir string) (n int, err error) {
	r := t.r
	x := t.open(methodLoad)
	defer x.close()
	clear(x.sent)
	m, err := readManifest(dir)
	if err == nil {
		err = m.fits(column.TypeOf[K](), t.vals, t.owners.name())
	}
	if err == nil {
		sum, _ := hex.DecodeString(m.SHA256)
		r.head[headArg] = binary.BigEndian.Uint64(sum)
	}
	if x.agree(ctx, err, t.shard.Len() > 0); x.err != nil {
		return x.endEmpty()
	}
	for rank := range r.size {
		if r.word(rank, headArg) != r.word(0, headArg) {
			x.err = fmt.Errorf("shard: Load: %w: ranks 0 and %d read different manifests",
				weft.ErrFormat, rank)
			return x.endEmpty()
		}
	}
	if t.adopt != nil && !x.flags {
		t.adopt(m.Files)
	}
	x.apply(ctx, func(ctx context.Context) (int, error) { return t.loadFiles(ctx, dir, m) })
	if n, err = x.endEmpty(); err != nil {
		return n, err
	}
	want := 0
	for _, f := range m.Files {
		want += f.Keys
	}
	if n != want {
		return n, fmt.Errorf("shard: Load: %w: files have %d keys, but the manifest says %d",
			weft.ErrFormat, n, want)
	}
	return n, nil
}

// fits returns an error if the manifest belongs to another kind of structure.
func (m *manifest) fits(keys, vals column.Type, positions string) error {
	if m.Keys != keys || m.Values != vals || m.Positions != positions {
		return fmt.Errorf("%w: a manifest of keys %v, values %v, ranges of %s; want %v, %v, %s",
			weft.ErrFormat, m.Keys, m.Values, m.Positions, keys, vals, positions)
	}
	return nil
}

func (t *table[K]) loadFiles(ctx context.Context, dir string, m *manifest) (n int, err error) {
	first, last := t.owners.span(t.r.rank, t.r.size)
	for _, f := range m.Files {
		if f.Last < first || last < f.First {
			continue
		}
		err := f.open(dir, func(from io.Reader) (err error) {
			got := 0
			if first <= f.First && f.Last <= last {
				got, err = t.shard.Load(ctx, from)
			} else {
				got, err = t.loadPart(ctx, from, func(k K) bool {
					at := position(&t.owners, k)
					return first <= at && at <= last
				})
			}
			n += got
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
