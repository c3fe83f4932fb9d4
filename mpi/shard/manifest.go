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

// manifestName is the file that names the shards of a structure. manifestFormat is its format.
const (
	manifestName   = "manifest.json"
	manifestFormat = "weft shards 1"
)

// manifest lists the files of a structure, as JSON. All numbers of 64 bits are strings of digits.
type manifest struct {
	Format string      `json:"format"`
	Keys   column.Type `json:"keys"`
	Values column.Type `json:"values"` // none of a set
	// Positions is "slots" if a file has the keys of some slots, and "keys" if it has those of a
	// range of keys.
	Positions string      `json:"positions"`
	Files     []shardFile `json:"files"`
	// SHA256 is that of the manifest with an empty one.
	SHA256 string `json:"sha256"`
}

// shardFile is a structure that one rank saved, and all of its keys in a range of positions.
type shardFile struct {
	First  uint64 `json:"first,string"`
	Last   uint64 `json:"last,string"`
	Name   string `json:"name"`
	Keys   int    `json:"keys"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Files of shards begin and end with these. Names of files in progress go on after the end.
const filePrefix, fileSuffix = "shard-", ".weft"

func fileName(save uint64, rank int) string {
	return fmt.Sprintf("%s%016x-%05d%s", filePrefix, save, rank, fileSuffix)
}

// sum sets the checksum of a manifest, and returns its bytes.
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

// replace writes the manifest, and then removes files of shards that it does not name.
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

// syncDir makes the names of files in a folder durable, where the system has such a call.
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

// readManifest reads a manifest and checks it.
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
		return nil, fmt.Errorf("%w: %s has no file of some %s", weft.ErrFormat, name, m.Positions)
	}
	return m, nil
}

// covers reports whether each position has one file. Empty ranges begin after their end.
func (m *manifest) covers() bool {
	next, end := uint64(0), uint64(Slots) // after the last position, modulo 2^64
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

// create writes the file of a shard, and sets its size and checksum.
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

// open calls load with the content of the file, and then compares the size and checksum.
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
