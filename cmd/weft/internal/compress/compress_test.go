package compress

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestReader(t *testing.T) {
	text := strings.Repeat("weft and warp\n", 1000)
	var gz, zst bytes.Buffer
	w := gzip.NewWriter(&gz)
	io.WriteString(w, text)
	w.Close()
	z, _ := zstd.NewWriter(&zst)
	io.WriteString(z, text)
	z.Close()
	for name, b := range map[string][]byte{"plain": []byte(text), "gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		r, err := Reader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := io.ReadAll(r)
		if string(got) != text || err != nil || r.Close() != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if name == "plain" {
			continue
		}
		r, err = Reader(bytes.NewReader(b[:len(b)-9])) // cut off
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s that is cut off: %v", name, err)
		}
	}
	for _, short := range []string{"", "a", "\x1f"} {
		r, err := Reader(strings.NewReader(short))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); string(got) != short || err != nil {
			t.Errorf("%q is read as %q, %v", short, got, err)
		}
	}
}
