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
			got, err := io.ReadAll(&lineReader{r: r})
			if string(got) != want || err != nil {
				t.Errorf("%q, read %s, is %q, %v, want %q", text, name, got, err, want)
			}
		}
	}
}
