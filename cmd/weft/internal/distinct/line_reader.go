package distinct

import (
	"bufio"
	"bytes"
	"io"
)

// lineReader normalizes line ends. If a lone \r ends the first line, all line ends (\r, \r\n and
// \n) become \n. Otherwise the stream is unchanged.
type lineReader struct {
	r       *bufio.Reader
	decided bool
	returns bool // \r ends lines
	held    bool // the last byte was a \r, which was replaced
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReader(r)} }

func (l *lineReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if !l.decided {
		l.decide(b[:n])
	}
	if l.returns {
		n = l.replace(b[:n])
	}
	return n, err
}

// decide finds the first line end. If b ends with a \r, it peeks at the next byte.
func (l *lineReader) decide(b []byte) {
	at := bytes.IndexAny(b, "\r\n")
	if at < 0 {
		return
	}
	l.decided = true
	if b[at] == '\r' {
		next := b[at+1:]
		if len(next) == 0 {
			next, _ = l.r.Peek(1) // the next Read returns an error
		}
		l.returns = len(next) == 0 || next[0] != '\n'
	}
}

// replace replaces each line end with \n.
func (l *lineReader) replace(b []byte) int {
	n := 0
	for _, c := range b {
		if c != '\n' || !l.held {
			b[n] = c
			if c == '\r' {
				b[n] = '\n'
			}
			n++
		}
		l.held = c == '\r'
	}
	return n
}
