package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/dsnet/compress/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// decompress decompresses src to exactly size bytes, and reuses dst if it is large enough. A
// damaged header cannot cause a large allocation. Either memory grows with the decompressed data,
// or size is first compared with the length of src.
func decompress(codec format.CompressionCodec, dst, src []byte, size int) ([]byte, error) {
	var err error
	switch codec {
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(src); err == nil && n != size {
			err = fmt.Errorf("a page of %d bytes, want %d", n, size)
		}
		if err == nil && size > 64*len(src) { // Snappy compresses at most 22-fold
			err = fmt.Errorf("a page of %d bytes cannot come from %d compressed bytes", size,
				len(src))
		}
		if err == nil {
			dst, err = snappy.Decode(grow(dst, size)[:size], src)
		}
	case format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			dst, err = readAll(dst, r, size)
		}
	case format.Brotli:
		var r *brotli.Reader
		if r, err = brotli.NewReader(bytes.NewReader(src), nil); err == nil {
			dst, err = readAll(dst, r, size)
		}
	case format.Zstd:
		r := zstdReaders.Get().(*zstd.Decoder)
		if err = r.Reset(bytes.NewReader(src)); err == nil {
			dst, err = readAll(dst, r, size)
		}
		if r.Reset(nil) == nil {
			zstdReaders.Put(r)
		}
	case format.Lz4, format.Lz4Raw:
		if size > 256*len(src) { // LZ4 compresses at most 255-fold
			return nil, fmt.Errorf("a page of %d bytes cannot come from %d bytes of lz4", size,
				len(src))
		}
		dst = grow(dst, size)[:size]
		if codec == format.Lz4 && hadoopLZ4(dst, src) {
			break
		}
		var n int
		if n, err = lz4.UncompressBlock(src, dst); err == nil {
			dst = dst[:n]
		}
	default:
		return nil, fmt.Errorf("compression %v is not supported", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", codec, err)
	}
	if len(dst) != size {
		return nil, fmt.Errorf("%v: a page of %d bytes, want %d", codec, len(dst), size)
	}
	return grow(dst, size)[:size], nil
}

// zstdReaders holds decoders that run on the calling goroutine.
var zstdReaders = sync.Pool{New: func() any {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		panic(err) // the options are valid
	}
	return r
}}

// grow returns a slice with the contents of b and a capacity of at least n+slack bytes.
func grow(b []byte, n int) []byte {
	if cap(b) >= n+slack {
		return b
	}
	return append(make([]byte, 0, n+slack), b...)
}

// readAll reads r to its end, but at most size+1 bytes.
func readAll(dst []byte, r io.Reader, size int) ([]byte, error) {
	b := bytes.NewBuffer(grow(dst[:0], min(size, 1<<20))[:0])
	_, err := b.ReadFrom(io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}

// hadoopLZ4 decompresses blocks in Hadoop's format, in which two lengths precede each block. It
// reports whether src has this format. The codec name in a file does not distinguish it from plain
// LZ4.
func hadoopLZ4(dst, src []byte) bool {
	for len(src) > 0 {
		if len(src) < 8 {
			return false
		}
		size, n := binary.BigEndian.Uint32(src), binary.BigEndian.Uint32(src[4:])
		src = src[8:]
		if uint64(n) > uint64(len(src)) || uint64(size) > uint64(len(dst)) {
			return false
		}
		if m, err := lz4.UncompressBlock(src[:n], dst[:size]); err != nil || m != int(size) {
			return false
		}
		src, dst = src[n:], dst[size:]
	}
	return len(dst) == 0
}
