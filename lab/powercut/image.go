//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"os"
)

const (
	imageBytes  = 64 << 20
	blockBytes  = 4096
	sectorBytes = 512 // the unit that a disk writes as a whole
)

// image is the content of a disk, as a list of blocks. A nil block holds zeros. Images share
// blocks, so a block never changes.
type image []*block

type block [blockBytes]byte

func newImage() image { return make(image, imageBytes/blockBytes) }

// write replaces the bytes from offset at on.
func (m image) write(at int64, data []byte) {
	for len(data) > 0 {
		b := new(block)
		if old := m[at/blockBytes]; old != nil {
			*b = *old
		}
		n := copy(b[at%blockBytes:], data)
		m[at/blockBytes] = b
		at, data = at+int64(n), data[n:]
	}
}

// read fills to with the bytes from offset at on.
func (m image) read(at int64, to []byte) {
	for len(to) > 0 {
		b := m[at/blockBytes]
		if b == nil {
			b = new(block)
		}
		n := copy(to, b[at%blockBytes:])
		at, to = at+int64(n), to[n:]
	}
}

// digest returns a hash of the image. Only digests with the same seed are comparable.
func (m image) digest(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i, b := range m {
		if b != nil && *b != (block{}) {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(i)))
			h.Write(b[:])
		}
	}
	return h.Sum64()
}

// save writes the image to a new file. Blocks of zeros take no space.
func (m image) save(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for i, b := range m {
		if b != nil && err == nil {
			_, err = f.WriteAt(b[:], int64(i)*blockBytes)
		}
	}
	return errors.Join(err, f.Truncate(imageBytes), f.Close())
}
