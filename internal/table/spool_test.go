package table

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

func TestSpool(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	broken := errors.New("broken")
	stdin, err := os.Open(write(t, "a", "before"+text))
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if _, err := stdin.Seek(6, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		raw   io.Reader
		dir   string
		max   int64
		again bool
		err   error
	}{
		"stream": {iotest.HalfReader(strings.NewReader(text)), "", 1 << 20,
			true, nil},
		"stream of the most":    {strings.NewReader(text), "", 10_000, true, nil},
		"stream that is longer": {strings.NewReader(text), "/dev/shm", 9_999, false, nil},
		"stream that fails": {&failing{strings.NewReader(text), broken}, "", 1 << 20, true,
			broken},
		"data with the end": {iotest.DataErrReader(strings.NewReader(text)), "", 1 << 20,
			true, nil},
		"file as standard input": {stdin, "", 1, true, nil},
	} {
		s := newSpool(tt.raw, tt.dir, tt.max)
		half := s.reader()
		if _, err := io.ReadFull(half, make([]byte, 5000)); err != nil {
			t.Fatal(name, err)
		}
		for pass, r := range []io.Reader{s.reader(), half, s.reader()} {
			got, err := io.ReadAll(r)
			want, wantErr := text, tt.err
			if pass == 1 {
				want = text[5000:]
			}
			if pass > 0 && !tt.again {
				want, wantErr = "", errSpool
			}
			if string(got) != want || !errors.Is(err, wantErr) {
				t.Errorf("%s, pass %d: %d bytes, %v; want %d, %v", name, pass, len(got), err, len(want), wantErr)
			}
		}
		if s.rereadable() != tt.again {
			t.Errorf("%s: again is %v", name, !tt.again)
		}
		s.drop()
	}
	if n, err := stdin.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the file has %d bytes more, %v", n, err)
	}
}

// Without a temporary file, a stream can be read only once.
func TestSpoolWithoutDirectory(t *testing.T) {
	t.Setenv("TMPDIR", "/proc/none")
	s := newSpool(strings.NewReader("abc"), "", 1<<20)
	if s.rereadable() {
		t.Skip("files can be made everywhere")
	}
	if got, err := io.ReadAll(s.reader()); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Each of several concurrent readers reads the whole stream.
func TestSpoolConcurrently(t *testing.T) {
	text := strings.Repeat("0123456789", 10_000)
	s := newSpool(iotest.HalfReader(strings.NewReader(text)), "", 1<<20)
	defer s.drop()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got, err := io.ReadAll(iotest.OneByteReader(s.reader())); string(got) != text || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
}
