package load

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// mirror is a codec that inverts all bits after a magic word.
type mirror struct {
	r io.Reader
	w io.Writer
}

const mirrorMagic = "MIRR"

func init() {
	Register(Codec{"mirror", ".mirror", mirrorMagic, func(io.Reader) (io.ReadCloser, error) { panic("replaced") }, nil})
	Register(Codec{"mirror", ".mirror", mirrorMagic,
		func(r io.Reader) (io.ReadCloser, error) {
			_, err := io.ReadFull(r, make([]byte, len(mirrorMagic)))
			return mirror{r: r}, err
		},
		func(w io.Writer) (io.WriteCloser, error) {
			_, err := io.WriteString(w, mirrorMagic)
			return mirror{w: w}, err
		}})
}

func (m mirror) Close() error { return nil }

func (m mirror) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	for i := range b[:n] {
		b[i] ^= 0xff
	}
	return n, err
}

func (m mirror) Write(b []byte) (int, error) {
	turned := bytes.Clone(b)
	for i := range turned {
		turned[i] ^= 0xff
	}
	return m.w.Write(turned)
}

// TestRegister checks that a registered codec is found by file suffix and by its first bytes. A
// codec that is listed but not registered must return an error that says so, and leave no file.
func TestRegister(t *testing.T) {
	dev := devicetest.Open(t)
	f := &File{Edges: graph.Edges{Vertices: 3, From: []uint32{0, 1}, To: []uint32{1, 2}}}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv.mirror")
	if err := Create(context.Background(), dev, path, f, Auto); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte(mirrorMagic)) || bytes.Contains(b, []byte("source")) {
		t.Fatalf("the file is %q, %v", b, err)
	}
	got, err := Read(context.Background(), dev, bytes.NewReader(b), "a.csv", nil)
	if err != nil || len(got.From) != 2 || got.To[1] != 2 {
		t.Errorf("read %+v, %v", got, err)
	}
	err = Create(context.Background(), dev, filepath.Join(dir, "a.csv.zst"), f, Auto)
	if !errors.Is(err, weft.ErrFormat) {
		t.Errorf("written without a codec: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("there are files %v", files)
	}
}

// TestGzipPadding checks that gzip may have several members, with zeros between and after them. Any
// other padding is an error.
func TestGzipPadding(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	member := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	zeros := strings.Repeat("\x00", 100_000)
	for _, tt := range []struct{ content, want string }{
		{member("0 1 5\n") + zeros, "2: 0-1=5"},
		{member("0 1 5\n") + "\x00", "2: 0-1=5"},
		{member("0 1 5\n") + zeros + member("") + member("1 2 6\n") + "\x00\x00", "3: 0-1=5 1-2=6"},
		{member("0 1 5\n") + zeros + "x", "gzip: "},
		{member("0 1 5\n") + "\x1f\x8b", "gzip: "},
		{member("0 1 5\n")[:20], "gzip: "},
	} {
		got := ""
		f, err := func() (*File, error) {
			g, err := newGunzip(strings.NewReader(tt.content))
			if err != nil {
				return nil, err
			}
			return Read(t.Context(), dev, codecReader{g, "gzip"}, "a.txt", nil)
		}()
		if err != nil {
			got = err.Error()
		} else {
			got = say(f)
		}
		if ok := got == tt.want || err != nil && strings.Contains(got, tt.want) && strings.HasSuffix(tt.want, ": ") && !strings.Contains(got, "gzip: gzip"); !ok {
			t.Errorf("%d bytes: %s, want %s", len(tt.content), got, tt.want)
		}
	}
}

// TestBzip2 checks that bzip2 can be read but not written.
func TestBzip2(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	packed, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWWoj+18AAAHYAAAQQABiACAAIYNBmgMYXF3JFOFCQaiP7Xw=")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(t.Context(), dev, bytes.NewReader(packed), "a.txt.bz2", nil)
	if err != nil || say(f) != "2: 0-1=5" {
		t.Errorf("%v, %v", f, err)
	}
	path := filepath.Join(t.TempDir(), "a.txt.bz2")
	if err := Create(t.Context(), dev, path, f, Auto); err == nil || !strings.Contains(err.Error(), "bzip2: it can be read but not written") {
		t.Errorf("written: %v", err)
	}
}
