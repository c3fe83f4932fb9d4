package load

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
)

// FuzzRead checks that any file is read, or refused with a line. A graph that is read must have
// valid edges, and must be the same after writing and reading it.
func FuzzRead(f *testing.F) {
	for i, content := range []string{
		"%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 1 2\n",
		"3 2\n1 2\n2 9\n", "a,b,w\n1,\"2\",3\n", "p sp 2 1\na 1 2 9\n", "3 2 11 1\n5 2 7\n5 1 7 3 1\n1 2 1\n", "0 1\n1 5\n", "0 1 7\n",
		"# Nodes: 2 Edges: 1\na b\n", "u;v\nx;y\n", "\x1f\x8b\x08\x00",
	} {
		f.Add(uint8(1+i%8), []byte(content))
	}
	dev, err := cpu.Open(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer dev.Close()
	f.Fuzz(func(t *testing.T, format uint8, content []byte) {
		o := Options{Format: Format(format % 9), MaxVertices: 1 << 12}
		got, err := Read(t.Context(), dev, bytes.NewReader(content), "x", &o)
		if err != nil {
			if at := (*Error)(nil); !errors.As(err, &at) || !errors.Is(err, weft.ErrFormat) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if got.Vertices > o.MaxVertices || got.Names.Len() != got.Vertices || got.Weights != nil && len(got.Weights) != len(got.From) {
			t.Fatalf("%d vertices, %d names, %d weights of %d edges", got.Vertices, got.Names.Len(), len(got.Weights), len(got.From))
		}
		if _, err := graph.Build(t.Context(), dev, got.Edges, nil); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(t.Context(), dev, &b, got, MatrixMarket); err != nil {
			t.Fatal(err)
		}
		copied, err := Read(t.Context(), dev, &b, "x.mtx", nil)
		if err != nil {
			t.Fatal(err)
		}
		if copied.Vertices != got.Vertices || len(copied.From) != len(got.From) || copied.Integral != got.Integral {
			t.Fatalf("written and read again: %d vertices, %d edges; were %d, %d", copied.Vertices, len(copied.From), got.Vertices, len(got.From))
		}
	})
}
