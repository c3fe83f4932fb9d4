package load

import (
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Codec describes a compression format. Errors of its readers and writers contain its name.
type Codec struct {
	Name   string // such as "zstd"
	Suffix string // suffix of file names, such as ".zst"
	Magic  string // first bytes of each stream, at most 16
	Reader func(io.Reader) (io.ReadCloser, error)
	Writer func(io.Writer) (io.WriteCloser, error)
}

// codecs lists the registered codecs. A codec without Reader is listed so that an error can name
// the compression of its files. The standard library has no decoder of zstd, and programs that read
// no such files should not link one.
var codecs = struct {
	sync.RWMutex
	list []Codec
}{list: []Codec{
	{"gzip", ".gz", "\x1f\x8b",
		func(r io.Reader) (io.ReadCloser, error) { return newGunzip(r) },
		func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
	{Name: "zstd", Suffix: ".zst", Magic: "\x28\xb5\x2f\xfd"},
	{Name: "bzip2", Suffix: ".bz2", Magic: "BZh",
		Reader: func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
	{Name: "xz", Suffix: ".xz", Magic: "\xfd7zXZ\x00"},
}}

// gunzip reads gzip. It skips zeros between and after members, since tapes and other devices pad
// their blocks with zeros.
type gunzip struct {
	*gzip.Reader
	r *bufio.Reader
}

func newGunzip(r io.Reader) (*gunzip, error) {
	g := &gunzip{r: bufio.NewReader(r)}
	var err error
	if g.Reader, err = gzip.NewReader(g.r); err != nil {
		return nil, err
	}
	g.Multistream(false)
	return g, nil
}

func (g *gunzip) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	for err == io.EOF && n == 0 {
		var next byte
		for next == 0 {
			if next, err = g.r.ReadByte(); err != nil {
				return 0, err
			}
		}
		if err = g.r.UnreadByte(); err == nil {
			err = g.Reset(g.r)
		}
		if err != nil {
			return 0, err
		}
		g.Multistream(false)
		n, err = g.Reader.Read(b)
	}
	if err == io.EOF {
		err = nil // the next read looks for another member
	}
	return n, err
}

// Register registers a codec for the whole program. It replaces a codec of the same name, such as
// gzip by a faster implementation. This registers zstd with github.com/klauspost/compress/zstd:
//
//	load.Register(load.Codec{
//		Name: "zstd", Suffix: ".zst", Magic: "\x28\xb5\x2f\xfd",
//		Reader: func(r io.Reader) (io.ReadCloser, error) {
//			z, err := zstd.NewReader(r)
//			if err != nil {
//				return nil, err
//			}
//			return z.IOReadCloser(), nil
//		},
//		Writer: func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
//	})
func Register(c Codec) {
	codecs.Lock()
	defer codecs.Unlock()
	for i, known := range codecs.list {
		if known.Name == c.Name {
			codecs.list[i] = c
			return
		}
	}
	codecs.list = append(codecs.list, c)
}

// codec returns the first registered codec for which matches returns true, or plain.
func codec(matches func(Codec) bool) Codec {
	codecs.RLock()
	defer codecs.RUnlock()
	for _, c := range codecs.list {
		if matches(c) {
			return c
		}
	}
	return plain
}

// plain copies streams unchanged.
var plain = Codec{
	Reader: func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil },
	Writer: func(w io.Writer) (io.WriteCloser, error) { return nopWriteCloser{w}, nil },
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// unsupported returns the error for a codec without Reader or Writer.
func (c Codec) unsupported() error {
	switch {
	case c.Reader != nil:
		return codecError(c.Name, "it can be read but not written")
	case c.Name == "xz":
		return codecError(c.Name, "it cannot be read; \"xz -dc FILE\" writes what the file holds")
	}
	return codecError(c.Name, "this program has no codec for it (load.Register)")
}

func codecError(name string, cause any) error {
	return malformed("%s: %s", name, strings.TrimPrefix(fmt.Sprint(cause), name+": "))
}

// splitSuffix splits the suffix of a codec off a file name.
func splitSuffix(name string) (base string, match Codec) {
	match = codec(func(c Codec) bool {
		n := len(name) - len(c.Suffix)
		return n > 0 && strings.EqualFold(name[n:], c.Suffix)
	})
	return name[:len(name)-len(match.Suffix)], match
}

// decompress returns a reader of the decompressed stream, and a function that closes it. It detects
// the codec by the first bytes.
func decompress(r io.Reader) (plain io.Reader, done func() error, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(16)
	if err != nil && err != io.EOF && len(head) == 0 { // otherwise the next read returns err again
		return nil, nil, err
	}
	c := codec(func(c Codec) bool { return strings.HasPrefix(string(head), c.Magic) })
	if c.Reader == nil {
		return nil, nil, c.unsupported()
	}
	z, err := c.Reader(b)
	if err != nil {
		return nil, nil, codecError(c.Name, err)
	}
	if c.Name == "" {
		return z, z.Close, nil
	}
	return codecReader{z, c.Name}, z.Close, nil
}

// codecReader adds the name of the codec to errors of decompression.
type codecReader struct {
	r    io.Reader
	name string
}

func (p codecReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && err != io.EOF {
		err = codecError(p.name, err)
	}
	return n, err
}
