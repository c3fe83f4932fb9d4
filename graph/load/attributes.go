package load

import "bytes"

// attribute returns the value of the attribute name in the form that networkx writes: {'weight':
// 3.0, 'color': 'red'} in Python, or the same in JSON. It returns nil if the attribute is missing.
// Other attributes are an error unless ignoreOthers is set.
func attribute(text []byte, name string, ignoreOthers bool) (value []byte, err error) {
	broken := func() ([]byte, error) {
		return nil, malformed("%.40q is not a list of attributes as networkx writes them", text)
	}
	remaining, ok := bytes.CutPrefix(text, []byte("{"))
	if !ok {
		return broken()
	}
	for {
		remaining = bytes.TrimLeft(remaining, " \t")
		if string(remaining) == "}" {
			return value, nil
		}
		var key, word []byte
		if key, remaining, ok = literal(remaining); !ok {
			return broken()
		}
		if remaining, ok = bytes.CutPrefix(bytes.TrimLeft(remaining, " \t"), []byte(":")); !ok {
			return broken()
		}
		if word, remaining, ok = literal(bytes.TrimLeft(remaining, " \t")); !ok {
			return broken()
		}
		switch matches := len(key) > 1 && string(key[1:len(key)-1]) == name; {
		case matches && value != nil:
			return nil, malformed("the attribute %q appears twice", name)
		case matches:
			value = word
		case !ignoreOthers:
			return nil, malformed("attribute %.40s is not a weight; --columns 1,2,NAME reads the attribute NAME alone, --columns 1,2 none", key)
		}
		remaining = bytes.TrimLeft(remaining, " \t")
		if after, ok := bytes.CutPrefix(remaining, []byte(",")); ok {
			remaining = after
		} else if string(remaining) != "}" {
			return broken()
		}
	}
}

// literal splits a value off the beginning of text: a quoted string, a bracketed value, or a word.
func literal(text []byte) (value, rest []byte, ok bool) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return nil, nil, false
			}
		case '[', '(', '{':
			depth++
		case ']', ')', '}', ',', ':':
			if depth == 0 {
				value = bytes.TrimRight(text[:i], " \t")
				return value, text[i:], len(value) > 0
			}
			if c != ',' && c != ':' {
				depth--
			}
		}
	}
	return nil, nil, false
}
