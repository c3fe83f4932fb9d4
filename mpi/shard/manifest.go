package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/atomicfile"
)

// manifestName is the name of the file that lists the shards of a structure. manifestFormat is its
// format.
const (
	manifestName   = "manifest.json"
	manifestFormat = "weft shards 1"
)

// manifest lists the files of a structure, as JSON. Integers of 64 bits are strings of digits.
type manifest struct {
	Format string      `json:"format"`
	Keys   column.Type `json:"keys"`
	Values column.Type `json:"values"` // column.None for a set
	// Positions is "slots" if each file has the keys in a range of slots, or "keys" if each has a
	// range of keys.
	Positions string      `json:"positions"`
	Files     []shardFile `json:"files"`
	// SHA256 is the digest of the manifest with an empty SHA256.
	SHA256 string `json:"sha256"`
}

// shardFile describes a file that one rank saved. It contains all keys at positions First to Last.
type shardFile struct {
	First  uint64 `json:"first,string"`
	Last   uint64 `json:"last,string"`
	Name   string `json:"name"`
	Keys   int    `json:"keys"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Names of shard files begin with filePrefix and end with fileSuffix. Names of unfinished files
// continue after fileSuffix.
const filePrefix, fileSuffix = "shard-", ".weft"

func fileName(save uint64, rank int) string {
	return fmt.Sprintf("%s%016x-%05d%s", filePrefix, save, rank, fileSuffix)
}

// sum sets the digest of the manifest and returns the encoded manifest.
func (m *manifest) sum() ([]byte, error) {
	m.SHA256 = ""
	bare, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bare)
	m.SHA256 = hex.EncodeToString(sum[:])
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// replace writes the manifest, and then removes shard files that are not in it.
func (m *manifest) replace(dir string) error {
	text, err := m.sum()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(filepath.Join(dir, manifestName), text); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, f := range m.Files {
		named[f.Name] = true
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, filePrefix) && strings.Contains(name, fileSuffix) && !named[name] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// syncDir makes the file names in a folder durable, except on Windows, which has no call for it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readManifest(dir string) (*manifest, error) {
	name := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", weft.ErrFormat, name, err)
	}
	if want, err := m.sum(); err != nil || !bytes.Equal(text, want) {
		return nil, fmt.Errorf("%w: %s: its checksum does not match", weft.ErrFormat, name)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%w: %s has format %q, want %q", weft.ErrFormat, name, m.Format,
			manifestFormat)
	}
	for _, f := range m.Files {
		if !fs.ValidPath(f.Name) || strings.Contains(f.Name, "/") {
			return nil, fmt.Errorf("%w: %s names the file %q", weft.ErrFormat, name, f.Name)
		}
	}
	if !m.covers() {
		return nil, fmt.Errorf("%w: %s has no file for some of its %s", weft.ErrFormat, name,
			m.Positions)
	}
	return m, nil
}

// covers reports whether exactly one file covers each position. A range with First > Last is empty.
func (m *manifest) covers() bool {
	next, end := uint64(0), uint64(Slots) // one past the last position, modulo 2^64
	if m.Positions != "slots" {
		end = 0
	}
	some := false
	for _, f := range m.Files {
		if f.First <= f.Last {
			if f.First != next || some && next == end {
				return false
			}
			next, some = f.Last+1, true
		}
	}
	return some && next == end
}

// create writes a shard file and sets its size and digest in f.
func (f *shardFile) create(dir string, save func(io.Writer) error) error {
	file, err := atomicfile.Create(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer file.Abort()
	sum := sha256.New()
	w := &countWriter{to: io.MultiWriter(file, sum)}
	if err := save(w); err != nil {
		return err
	}
	f.Bytes, f.SHA256 = w.n, hex.EncodeToString(sum.Sum(nil))
	if err := file.Commit(); err != nil {
		return err
	}
	return syncDir(dir)
}

type countWriter struct {
	to io.Writer
	n  int64
}

func (w *countWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.n += int64(n)
	return n, err
}

// open calls load with the content of the file, and then checks its size and digest.
func (f *shardFile) open(dir string, load func(io.Reader) error) error {
	name := filepath.Join(dir, f.Name)
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	w := &countWriter{to: sum}
	from := io.TeeReader(file, w)
	if err := load(from); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return err
	}
	if w.n != f.Bytes || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s is not the file of the manifest: it has %d bytes, want %d, "+
			"or another checksum", weft.ErrFormat, name, w.n, f.Bytes)
	}
	return nil
}
