// Package compress reads and writes gzip, zstd and bzip2 files for the command, and converts text
// encodings. For other compressed files and archives, it returns errors that suggest a remedy. The
// library supports only gzip. Importing this package registers its codecs with graph/load.
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

// maxWindow bounds the memory of a zstd decoder for decoded data. It is the maximum that "zstd
// --ultra" uses.
const maxWindow = 128 << 20

// codecs lists the supported codecs, and codecs that are only recognized. Errors of their readers
// do not contain the codec's name.
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

// Suffixes lists the file name suffixes of the codecs that can be read.
var Suffixes = []string{".gz", ".zst", ".bz2"}

func init() {
	for _, c := range codecs {
		load.Register(c)
	}
}

// unread returns a codec that is recognized but not supported. Its error suggests a remedy.
func unread(name, suffix, magic, remedy string) load.Codec {
	return load.Codec{Name: name, Suffix: suffix, Magic: magic,
		Reader: func(io.Reader) (io.ReadCloser, error) { return nil, errors.New("weft cannot read it; use " + remedy) },
		Writer: refused("cannot be written")}
}

func refused(reason string) func(io.Writer) (io.WriteCloser, error) {
	return func(io.Writer) (io.WriteCloser, error) { return nil, errors.New(reason) }
}

// gunzip decompresses consecutive gzip members. It skips zeros between them, which tapes and block
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

var errTrailing = errors.New("other data follows the compressed data")

// skipZeros skips bytes that are zero. It returns io.EOF if no other byte follows.
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

// bunzip2 decompresses consecutive bzip2 streams, and skips zeros between them. If the data is text
// that only begins like bzip2, bunzip2 returns it unchanged.
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

// streams is the input of compress/bzip2, which reads it byte by byte.
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
	// The decoder has read two bytes after the stream.
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

// buffered returns r if it is a *bufio.Reader, or a new one that reads from r. Decoders read no
// more bytes than they need from it.
func buffered(r io.Reader) *bufio.Reader {
	if b, ok := r.(*bufio.Reader); ok {
		return b
	}
	return bufio.NewReaderSize(r, 1<<16)
}

// unnamed removes the codec's name from an error, so that all errors of the codec lack the name.
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

// Reader decompresses a stream. It detects the compression by the first bytes, and returns other
// data unchanged. Errors in compressed data name the compression.
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

// skippable reports whether data begins with a skippable zstd frame, which pzstd writes.
func skippable(head []byte) bool {
	return len(head) > 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18"
}

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
