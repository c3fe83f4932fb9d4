package compress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

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
		r, err = Reader(bytes.NewReader(b[:len(b)-9])) // truncated
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

// bz2 is "weft\n", compressed by bzip2.
var bz2 = unhex("425a68393141592653590ce40fa80000024180001003000480200030cd00c1a63071772453850900ce40fa80")

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func gzipped(t *testing.T, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Consecutive streams are read, with or without zeros between and after them. Other data that
// follow are an error.
func TestSeveralStreams(t *testing.T) {
	gz, zeros := gzipped(t, "weft\n"), strings.Repeat("\x00", 513)
	for _, tt := range []struct{ data, want, fails string }{
		{gz + gz, "weft\nweft\n", ""},
		{gz + "\x00", "weft\n", ""},
		{gz + zeros, "weft\n", ""},
		{gz + zeros + gz + gz + zeros, "weft\nweft\nweft\n", ""},
		{gz + "x", "weft\n", "gzip: other data follows the compressed data"},
		{gz + zeros + "text that follows", "weft\n", "gzip: other data follows the compressed data"},
		{gz + gz[:3], "weft\n", "gzip: unexpected EOF"},
		{gz + gz[:len(gz)-2], "weft\nweft\n", "gzip: unexpected EOF"},
		{gz[:5] + zeros, "", "gzip: "},
		{gz[:12] + "\xff\xff" + gz[14:], "", "gzip: "},
		{bz2, "weft\n", ""},
		{bz2 + bz2, "weft\nweft\n", ""},
		{bz2 + zeros, "weft\n", ""},
		{bz2 + zeros + bz2 + zeros, "weft\nweft\n", ""},
		{bz2 + "xy", "weft\n", "bzip2: other data follows the compressed data"},
		{bz2 + zeros + "text", "weft\n", "bzip2: other data follows the compressed data"},
		{bz2[:len(bz2)-3], "weft\n", "bzip2: unexpected EOF"},
		{bz2[:20] + zeros, "", "bzip2: "},
		{"BZh9,a text", "BZh9,a text", ""},
		{"\xfd7zXZ\x00 …", "", "xz: weft cannot read it; use xz -dc FILE | weft … -"},
		{"PK\x03\x04 …", "", "zip: weft cannot read it; use unzip -p FILE | weft … -, or save an Excel workbook as CSV"},
		{"\x04\x22\x4d\x18 …", "", "lz4: weft cannot read it; use lz4 -dc FILE | weft … -"},
		{"7z\xbc\xaf\x27\x1c …", "", "7z: weft cannot read it; use 7z x -so FILE | weft … -"},
		{"\x1f\x9d …", "", "compress: weft cannot read it; use gzip -dc FILE | weft … -"},
	} {
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(tt.data), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.data))} {
			var got []byte
			r, err := Reader(in)
			if err == nil {
				got, err = io.ReadAll(r)
			}
			fails := ""
			if err != nil {
				fails = err.Error()
			}
			if string(got) != tt.want || fails != tt.fails && (tt.fails == "" || !strings.HasPrefix(fails, tt.fails)) {
				t.Errorf("%.40q, read %s: %q, %v; want %q, %s", tt.data, name, got, err, tt.want, tt.fails)
			}
			if strings.Contains(fails, "gzip: gzip") || strings.Contains(fails, "bzip2: bzip2") || strings.Contains(fails, "flate:") {
				t.Errorf("%.40q: %s", tt.data, fails)
			}
		}
	}
}

func TestText(t *testing.T) {
	long := strings.Repeat("aé€😀\n", 20_000)
	for _, tt := range []struct{ data, want, fails string }{
		{"", "", ""},
		{"a", "a", ""},
		{"a,b\n", "a,b\n", ""},
		{"\ufeffa", "a", ""},
		{"\ufeff\ufeffa", "\ufeffa", ""},
		{"\xff\xfe\xff", "", "UTF-16: half a character at the end, byte 2"},
		{"\xff\xfe", "", ""},
		{"\xfe\xff", "", ""},
		{in16("\ufeff"+long, binary.LittleEndian), long, ""},
		{in16("\ufeff"+long, binary.BigEndian), long, ""},
		{in16("\ufeffa\ufeff\x00b", binary.BigEndian), "a\ufeff\x00b", ""},
		{in16("\ufeffab", binary.LittleEndian) + "\x00", "ab", "UTF-16: half a character at the end, byte 6"},
		{"\xff\xfea\x00\x00\xd8b\x00", "a", "UTF-16: half of a surrogate pair at byte 4"},
		{"\xff\xfea\x00\x00\xdcb\x00", "a", "UTF-16: half of a surrogate pair at byte 4"},
		{"\xff\xfea\x00\x00\xd8", "a", "UTF-16: half of a surrogate pair at byte 4"},
		{in16("id,v\n1,2\n", binary.LittleEndian), "", "every other byte is zero: UTF-16LE without a byte order mark? iconv -f UTF-16LE -t UTF-8 FILE | weft … -"},
		{in16("id,v\n1,2\n", binary.BigEndian), "", "every other byte is zero: UTF-16BE without"},
		{"\xff\xfe\x00\x00a\x00\x00\x00", "", "UTF-32, which is not supported; use iconv -f UTF-32 -t UTF-8 FILE | weft … -"},
		{"\x00\x00\xfe\xff\x00\x00\x00a", "", "UTF-32"},
		{"a,\x00,b\x00", "a,\x00,b\x00", ""},
	} {
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(tt.data), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.data))} {
			var got []byte
			r, err := Text(bufio.NewReader(in))
			if err == nil {
				got, err = io.ReadAll(r)
			}
			fails := ""
			if err != nil {
				fails = err.Error()
			}
			if string(got) != tt.want || fails != tt.fails && (tt.fails == "" || !strings.HasPrefix(fails, tt.fails)) {
				t.Errorf("%.40q, read %s: %.40q, %v; want %.40q, %s", tt.data, name, got, err, tt.want, tt.fails)
			}
		}
	}
}

// in16 returns text in UTF-16.
func in16(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, c := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, c)
	}
	return string(b)
}
