package seal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"
)

func TestSealed(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, 16)
	w.Sealed([]byte("some"), nil, []byte("parts"))
	w.Sealed()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	crc := crc32.Checksum([]byte("someparts"), Castagnoli)
	want := append([]byte("someparts"), byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24), 0, 0, 0, 0)
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("wrote %x, want %x", b.Bytes(), want)
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// The writer keeps its first error and writes nothing after it.
func TestError(t *testing.T) {
	w := NewWriter(full{}, 16)
	w.Sealed(make([]byte, 100))
	w.Sealed(make([]byte, 100))
	if err := w.Flush(); err != errFull || w.Err != errFull {
		t.Errorf("%v, %v", err, w.Err)
	}
}
