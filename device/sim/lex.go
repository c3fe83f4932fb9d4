package sim

import "fmt"

// token is a piece of PTX text: a word (opcode with its modifiers, name, register, directive or
// number), a quoted string, or one character of punctuation.
type token struct {
	text string
	line int
	kind tokenKind
}

type tokenKind uint8

const (
	tokenWord tokenKind = iota
	tokenString
	tokenPunct
	tokenEnd
)

// lex splits PTX text into tokens and drops comments. Dots belong to words: "ld.param.u64" and
// "%tid.x" are one word each.
func lex(src string) ([]token, error) {
	// In clang's output, a token and the space around it take at least four characters on average.
	toks := make([]token, 0, len(src)/4)
	line := 1
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '/' && i+1 < len(src) && src[i+1] == '/':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(src) && src[i+1] == '*':
			start := line
			for i += 2; ; i++ {
				if i+1 >= len(src) {
					return nil, fmt.Errorf("line %d: comment does not end", start)
				}
				if src[i] == '\n' {
					line++
				}
				if src[i] == '*' && src[i+1] == '/' {
					i += 2
					break
				}
			}
		case c == '"':
			end := i + 1
			for end < len(src) && src[end] != '"' && src[end] != '\n' {
				end++
			}
			if end == len(src) || src[end] == '\n' {
				return nil, fmt.Errorf("line %d: string does not end", line)
			}
			toks = append(toks, token{src[i+1 : end], line, tokenString})
			i = end + 1
		case isWord(c):
			end := i
			for end < len(src) && isWord(src[end]) {
				end++
			}
			toks = append(toks, token{src[i:end], line, tokenWord})
			i = end
		default:
			toks = append(toks, token{src[i : i+1], line, tokenPunct})
			i++
		}
	}
	return append(toks, token{"end of file", line, tokenEnd}), nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '$' || c == '%' || c == '.'
}
