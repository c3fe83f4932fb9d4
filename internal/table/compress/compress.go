// Package compress reads and writes gzip, zstd and bzip2 for the command, and reads the encodings
// of text. Other compressed files, and archives, are errors that say what to do. The library has
// only gzip. An import of this package registers all of them with graph/load.
package compress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weftgo/weft/graph/load"
)

// maxWindow bounds the decoded data that a decoder of zstd keeps: the maximum that "zstd --ultra"
// writes.
const maxWindow = 128 << 20

// codecs lists the readable codecs, and others that are only recognized. Errors of their readers do
// not name them.
var codecs = []load.Codec{
	{Name: "gzip", Suffix: ".gz", Magic: "\x1f\x8b", Reader: gunzip,
		Writer: func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
	{Name: "zstd", Suffix: ".zst", Magic: "\x28\xb5\x2f\xfd", Reader: unzstd,
		Writer: func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		}},
	{Name: "bzip2", Suffix: ".bz2", Magic: "BZh", Reader: bunzip2,
		Writer: refused("cannot be written: write without it, and compress the file afterwards")},
	unread("xz", ".xz", "\xfd7zXZ\x00", "xz -dc FILE | weft … -"),
	unread("lz4", ".lz4", "\x04\x22\x4d\x18", "lz4 -dc FILE | weft … -"),
	unread("lzip", ".lz", "LZIP\x01", "lzip -dc FILE | weft … -"),
	unread("compress", ".Z", "\x1f\x9d", "gzip -dc FILE | weft … -"),
	unread("7z", ".7z", "7z\xbc\xaf\x27\x1c", "7z x -so FILE | weft … -"),
	unread(
		"zip",
		".zip",
		"PK\x03\x04",
		"unzip -p FILE | weft … -, or save an Excel workbook as CSV",
	),
	unread("xls", ".xls", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save the workbook as CSV"),
}

// Suffixes are the ends of names of files that can be read.
var Suffixes = []string{".gz", ".zst", ".bz2"}

func init() {
	for _, c := range codecs {
		load.Register(c)
	}
}

// unread returns a codec that is recognized only for an error that says what to do.
func unread(name, suffix, magic, remedy string) load.Codec {
	return load.Codec{Name: name, Suffix: suffix, Magic: magic,
		Reader: func(io.Reader) (io.ReadCloser, error) { return nil, errors.New("weft cannot read it; use " + remedy) },
		Writer: refused("cannot be written")}
}

func refused(reason string) func(io.Writer) (io.WriteCloser, error) {
	return func(io.Writer) (io.WriteCloser, error) { return nil, errors.New(reason) }
}

// gunzip reads members of gzip one after the other, also between zeros, which tapes and block
// devices add.
func gunzip(r io.Reader) (io.ReadCloser, error) {
	b := buffered(r)
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, unnamed(err)
	}
	z.Multistream(false)
	return &members{b, z}, nil
}

type members struct {
	b *bufio.Reader
	z *gzip.Reader
}

func (m *members) Close() error { return m.z.Close() }

func (m *members) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	if err != io.EOF {
		return n, unnamed(err)
	}
	if err := skipZeros(m.b); err != nil {
		return n, err
	}
	if magic, _ := m.b.Peek(2); string(magic) != "\x1f\x8b" {
		return n, errTrailing
	}
	if err := m.z.Reset(m.b); err != nil {
		return n, unnamed(err)
	}
	m.z.Multistream(false)
	return n, nil
}

var errTrailing = errors.New("other data follow the compressed ones")

// skipZeros skips zeros up to another byte, or io.EOF.
func skipZeros(b *bufio.Reader) error {
	for {
		c, err := b.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			return b.UnreadByte()
		}
	}
}

func unzstd(r io.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(
		r,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindow),
	)
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// bunzip2 reads streams of bzip2 one after the other, also between zeros, or text that begins like
// one.
func bunzip2(r io.Reader) (io.ReadCloser, error) {
	b := buffered(r)
	head, _ := b.Peek(10)
	if len(head) == 10 &&
		(head[3]-'1' > 8 || string(head[4:]) != "1AY&SY" && string(head[4:]) != "\x17rE8P\x90") {
		return io.NopCloser(b), nil
	}
	s := &streams{b: b}
	s.z = bzip2.NewReader(s)
	return io.NopCloser(readerFunc(s.decode)), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// streams is the input of compress/bzip2, byte by byte.
type streams struct {
	b    *bufio.Reader
	last [2]byte
	z    io.Reader
}

func (s *streams) Read(p []byte) (int, error) { return s.b.Read(p) }

func (s *streams) ReadByte() (byte, error) {
	c, err := s.b.ReadByte()
	s.last = [2]byte{s.last[1], c}
	return c, err
}

func (s *streams) decode(p []byte) (int, error) {
	n, err := s.z.Read(p)
	if err != bzip2.StructuralError("bad magic value in continuation file") {
		return n, unnamed(err)
	}
	// Two bytes after a stream have been read.
	if s.last[0] != 0 {
		return n, errTrailing
	}
	if err := s.b.UnreadByte(); err != nil {
		return n, err
	}
	if err := skipZeros(s.b); err != nil {
		return n, err
	}
	if magic, _ := s.b.Peek(3); string(magic) != "BZh" {
		return n, errTrailing
	}
	s.z = bzip2.NewReader(s)
	return n, nil
}

// buffered returns r if it is buffered, or a buffered reader of it. Decoders read no more of it
// than they need.
func buffered(r io.Reader) *bufio.Reader {
	if b, ok := r.(*bufio.Reader); ok {
		return b
	}
	return bufio.NewReaderSize(r, 1<<16)
}

// unnamed removes the name of a codec, which other errors of it lack.
func unnamed(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	text := err.Error()
	for _, name := range []string{"gzip: ", "flate: ", "bzip2 data invalid: "} {
		if rest, ok := strings.CutPrefix(text, name); ok {
			return errors.New(rest)
		}
	}
	return err
}

// Reader reads the contents of a stream, which is compressed if it begins so. Errors of compressed
// data name the compression.
func Reader(r io.Reader) (io.ReadCloser, error) {
	b := buffered(r)
	head, err := b.Peek(16)
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, err
	}
	for _, c := range codecs {
		if bytes.HasPrefix(head, []byte(c.Magic)) || c.Name == "zstd" && skippable(head) {
			z, err := c.Reader(b)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			return packed{z, c.Name}, nil
		}
	}
	return io.NopCloser(b), nil
}

// skippable reports whether a stream begins with a skippable frame of zstd, as those of pzstd do.
func skippable(head []byte) bool {
	return len(head) > 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18"
}

// packed names the compression of data that cannot be decompressed.
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
