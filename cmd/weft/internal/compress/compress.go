// Package compress gives the command gzip and zstd, for the files that it reads and writes. The
// library has no zstd: whoever imports this package has registered both with graph/load.
package compress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weftgo/weft/graph/load"
)

// The first bytes of streams.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// maxWindow is what a decoder of zstd may keep of what it has decoded: what "zstd --ultra" writes at most.
const maxWindow = 128 << 20

func init() {
	load.Register(load.Codec{Name: "gzip", Suffix: ".gz", Magic: gzipMagic, Reader: gunzip,
		Writer: func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }})
	load.Register(load.Codec{Name: "zstd", Suffix: ".zst", Magic: zstdMagic, Reader: unzstd,
		Writer: func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		}})
}

func gunzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

func unzstd(r io.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// Reader reads what a stream holds, which is compressed if it begins like that. Errors of
// compressed data say by what it was compressed.
func Reader(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		z, err := gunzip(b)
		return named(z, "gzip", err)
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		z, err := unzstd(b)
		return named(z, "zstd", err)
	}
	return io.NopCloser(b), nil
}

func named(z io.ReadCloser, by string, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", by, err)
	}
	return packed{z, by}, nil
}

// packed says by what data was compressed that cannot be decompressed.
type packed struct {
	io.ReadCloser
	by string
}

func (p packed) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", p.by, err)
	}
	return n, err
}
