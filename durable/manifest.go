package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/seal"
)

// manifest lists the files of a store: a checkpoint, and the segments of the log from number
// Segment on. Its file is text: a JSON object, and a line with the CRC-32C of the object.
type manifest struct {
	Format     string `json:"format"`
	Holds      string `json:"holds"` // the shape in words, for human readers
	Shape      []byte `json:"shape"`
	Store      uint64 `json:"store"`      // random number, which the segments have, too
	Checkpoint uint64 `json:"checkpoint"` // number of the checkpoint; 0 is none
	Pairs      int    `json:"pairs"`      // number of pairs in the checkpoint
	NextID     uint64 `json:"next_id"`    // next id of Assign when the checkpoint began
	Segment    uint64 `json:"segment"`    // number of the first segment
	Sequence   uint64 `json:"sequence"`   // sequence of the first frame after the checkpoint
	// sequence of the last frame that is known to be on the disk
	Synced uint64 `json:"synced"`
}

const manifestFormat = "weft store 1"

func (m manifest) encode() []byte {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // numbers and strings
	}
	text = append(text, '\n')
	return append(text, crcLine(text)...)
}

func crcLine(text []byte) string {
	return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(text, seal.Castagnoli))
}

// segments returns the numbers of the segments that the manifest needs.
func (m manifest) segments(l listing) ([]uint64, error) {
	i, ok := slices.BinarySearch(l.segments, m.Segment)
	if !ok {
		return nil, fmt.Errorf("%w: %s is missing", weft.ErrCorrupt, segmentName(m.Segment))
	}
	return l.segments[i:], nil
}

// decodeManifest decodes the text of a manifest file.
func decodeManifest(text []byte) (m manifest, err error) {
	body := max(0, bytes.LastIndex(text, []byte("crc32c ")))
	if string(text[body:]) != crcLine(text[:body]) {
		return m, fmt.Errorf("%w: %s is damaged", weft.ErrCorrupt, manifestName)
	}
	if err := json.Unmarshal(text[:body], &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", weft.ErrFormat, manifestName, err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%w: the store has the format %q, this program reads %q",
			weft.ErrFormat, m.Format, manifestFormat)
	}
	return m, nil
}

// withManifest calls f with the text of the manifest of a store that may be open. If f fails, and
// the manifest has changed meanwhile, a checkpoint may have removed the files that f needs. Then
// withManifest begins again.
func withManifest(fs fileSystem, f func(text []byte) error) error {
	for {
		text, err := readFile(fs, manifestName)
		if err != nil {
			return err
		}
		if err = f(text); err == nil {
			return nil
		}
		if now, rerr := readFile(fs, manifestName); rerr != nil || bytes.Equal(now, text) {
			return errors.Join(err, rerr)
		}
	}
}

// readManifest reads the manifest of a store. It returns an error if the manifest has another shape
// than s.
func readManifest(fs fileSystem, s shape) (m manifest, err error) {
	text, err := readFile(fs, manifestName)
	if err != nil {
		return m, err
	}
	if m, err = decodeManifest(text); err != nil {
		return m, err
	}
	if want := s.bytes(); !bytes.Equal(m.Shape, want[:]) {
		err = fmt.Errorf("%w: the store holds %s, and is opened as %s", weft.ErrFormat, m.Holds, s.Name)
	}
	return m, err
}

func newManifest(s shape) manifest {
	b := s.bytes()
	return manifest{Format: manifestFormat, Holds: s.Name, Shape: b[:], Store: s.store}
}

// write atomically replaces the manifest file of the store and makes the new one durable.
func (m manifest) write(fs fileSystem) error {
	return writeFile(fs, manifestName, func(f file) error {
		_, err := f.WriteAt(m.encode(), 0)
		return err
	})
}

// writeFile is createFile for a file that needs no more writes.
func writeFile(fs fileSystem, name string, write func(f file) error) error {
	f, err := createFile(fs, name, write)
	if err != nil {
		return err
	}
	return f.Close()
}

// createFile makes a file that gets its name only after what write writes is on the disk. The name
// is on the disk when createFile returns.
func createFile(fs fileSystem, name string, write func(f file) error) (f file, err error) {
	temp := name + tempSuffix
	if err := removeIfExists(fs, temp); err != nil {
		return nil, err
	}
	if f, err = fs.Create(temp); err != nil {
		return nil, err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fs.Rename(temp, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fs.Remove(temp))
	}
	if err := fs.SyncDir(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errRenamed, err), f.Close())
	}
	return f, nil
}

// errRenamed reports that a file has its name, but that the name may not be on the disk.
var errRenamed = errors.New("sync the folder")

func readFile(fs fileSystem, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}
