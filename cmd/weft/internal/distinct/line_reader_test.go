package distinct

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"a":                    "a",
		"a\nb\rc\r\nd":         "a\nb\rc\r\nd",
		"a\r\nb\rc\n":          "a\r\nb\rc\n",
		"a\rb\rc":              "a\nb\nc",
		"a\r\rb\r\nc\nd\n\re":  "a\n\nb\nc\nd\n\ne",
		"\r":                   "\n",
		"\r\n\r":               "\r\n\r",
		"long line\r\r\n\r\n ": "long line\n\n\n ",
	} {
		for name, r := range map[string]io.Reader{
			"at once":      strings.NewReader(text),
			"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
			"with the end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := io.ReadAll(newLineReader(r))
			if string(got) != want || err != nil {
				t.Errorf("%q, read %s, is %q, %v, want %q", text, name, got, err, want)
			}
		}
	}
}

// The result does not depend on the size of the buffer, even if its last byte is a \r, because
// pieces of a stream may end anywhere.
func TestReturnAtTheEndOfABuffer(t *testing.T) {
	for _, text := range []string{"ab\r\ncd\r\n", "ab\rcd\r", "\r\n", "\r"} {
		want, err := io.ReadAll(newLineReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		for size := 1; size <= len(text); size++ {
			var got []byte
			r, b, empty := newLineReader(strings.NewReader(text)), make([]byte, size), 0
			for {
				n, err := r.Read(b)
				got = append(got, b[:n]...)
				if empty++; n > 0 {
					empty = 0
				}
				if err == io.EOF {
					break
				}
				if err != nil || empty > 1 {
					t.Fatalf("%q in pieces of %d: %q, then %d empty reads, %v", text, size, got, empty, err)
				}
			}
			if string(got) != string(want) {
				t.Errorf("%q in pieces of %d is %q, want %q", text, size, got, want)
			}
		}
	}
}
