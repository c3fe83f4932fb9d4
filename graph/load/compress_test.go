package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// mirror is a codec for tests: it turns all bits over behind a magic word.
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

// A codec that is registered is used by name and by magic; one that is known and not registered
// is an error that says so, and leaves no file.
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
