package load

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is what a decoder of zstd may keep of what it has decoded: what "zstd --ultra" writes at most.
const maxWindow = 128 << 20

// compression splits the end off a name that says how a file is compressed.
func compression(name string) (rest, by string) {
	for _, end := range []string{".gz", ".zst"} {
		if len(name) > len(end) && strings.EqualFold(name[len(name)-len(end):], end) {
			return name[:len(name)-len(end)], end
		}
	}
	return name, ""
}

// decompressed is what a stream holds, which is compressed if it begins like that.
func decompressed(r io.Reader) (plain io.Reader, done func(), err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, malformed("gzip: %v", err)
		}
		return broke{z, "gzip"}, func() { z.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, malformed("zstd: %v", err)
		}
		return broke{z, "zstd"}, z.Close, nil
	}
	return b, func() {}, nil
}

// broke says by what data was compressed that cannot be decompressed.
type broke struct {
	r  io.Reader
	by string
}

func (b broke) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		err = malformed("%s: %v", b.by, err)
	}
	return n, err
}

// compressed compresses what is written, as the end of a name says.
func compressed(w io.Writer, by string) (io.WriteCloser, error) {
	switch by {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plainly{w}, nil
}

type plainly struct{ io.Writer }

func (plainly) Close() error { return nil }
