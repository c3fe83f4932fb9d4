package distinct

import (
	"bytes"
	"io"
)

// lineReader reads a stream of lines. If a \r alone ends the first line, all of \r, \r\n and \n end lines, and
// are read as \n. Else the stream stays as it is.
type lineReader struct {
	r       io.Reader
	decided bool
	returns bool // \r ends lines
	held    bool // a \r has been read, and what follows has not
}

func (l *lineReader) Read(b []byte) (int, error) {
	if l.decided && !l.returns {
		return l.r.Read(b)
	}
	n, err := 0, error(nil)
	if l.held && !l.decided && len(b) > 0 {
		b[0] = '\r'
		n = 1
	}
	m, err := l.r.Read(b[n:])
	n += m
	if !l.decided {
		n = l.decide(b[:n], err == io.EOF)
	}
	if l.returns {
		n = l.replace(b[:n])
	}
	return n, err
}

// decide finds the first end of a line. It returns how much of b can be read: a \r at its end waits for what follows.
func (l *lineReader) decide(b []byte, last bool) int {
	l.held = false
	at := bytes.IndexAny(b, "\r\n")
	switch {
	case at < 0:
		return len(b)
	case b[at] == '\r' && at+1 == len(b) && !last:
		l.held = true
		return at
	}
	l.decided = true
	l.returns = b[at] == '\r' && (at+1 == len(b) || b[at+1] != '\n')
	return len(b)
}

// replace writes \n for all ends of lines.
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
