package load

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weftgo/weft"
)

// columnNames lists common names of the two id columns, in pairs.
var columnNames = []string{
	"id_1", "id_2", "id1", "id2", "source", "target", "src", "dst", "from", "to", "from_id", "to_id", "fromnodeid", "tonodeid",
	"node_1", "node_2", "node1", "node2", "u", "v", "head", "tail", "tail", "head", "start", "end", "source_id", "target_id",
}

// weightNames lists common names of weight columns.
var weightNames = []string{
	"weight", "weights", "w", "value", "cost", "distance", "dist", "length", "km", "capacity", "count", "score", "rating",
	"time", "timestamp",
}

// separators lists the separators of CSV in the order of detection.
const separators = ",;\t|"

var inQuotes = regexp.MustCompile(`"[^"]*"`)

// unquoted returns a line without its quoted parts.
func unquoted(line []byte) []byte { return inQuotes.ReplaceAllLiteral(line, nil) }

// csv reads edges from columns.
type csv struct {
	edgeReader
	o         Options
	separator byte // 0 for white space
	width     int  // number of columns of the first line
	first     int  // line number of the first line
	columns   [3]int
	attribute string // networkx attribute that holds the weight, or empty
}

const noColumn = -1

func readCSV(s *scanner, e *edges, o Options) error {
	c := &csv{edgeReader: edgeReader{s: s, e: e, idKind: o.IDs}, o: o, separator: o.Separator}
	line, ok, doubtful := c.comments()
	if ok {
		if err := c.readFirstLine(line); err != nil {
			return err
		}
		var fields [][]byte
		for line, ok = s.next(); ok; line, ok = s.next() {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			var err error
			if fields, err = c.split(line, fields); err == nil {
				err = c.addLine(s.line, fields)
			}
			if err != nil {
				return err
			}
		}
	}
	if s.err != nil {
		return s.err
	}
	if err := c.flush(); err != nil {
		return err
	}
	if _, text := e.ids.(*stringIDs); doubtful > 0 && (text || c.edges == 0) {
		return &lineError{doubtful, malformed("the line may be a comment or an edge; quote an id that begins so, or put a space after the mark of a comment")}
	}
	return e.ids.finish(e, -1)
}

// comments skips the comments above the first line. doubtful is the line number of the first
// comment that may be an edge between strings, such as "#a,#b".
func (c *csv) comments() (line []byte, ok bool, doubtful int) {
	for line, ok = c.s.nextData(""); ok && isComment(line); line, ok = c.s.nextData("") {
		if doubtful == 0 && len(line) > 1 && !isSpace(line[1]) && bytes.ContainsAny(line, separators) {
			doubtful = c.s.line
		}
	}
	return line, ok, doubtful
}

// readFirstLine determines the separator and processes the first line.
func (c *csv) readFirstLine(line []byte) error {
	if c.separator == 0 {
		ids, _, _ := bytes.Cut(unquoted(line), []byte("{"))
		for _, s := range []byte(separators) {
			if bytes.IndexByte(ids, s) >= 0 {
				c.separator = s
				break
			}
		}
	}
	if c.separator == ' ' {
		c.separator = 0
	}
	first, err := c.split(slices.Clone(line), nil)
	if err != nil {
		return err
	}
	return c.readFirstFields(first, func() ([]byte, bool) { return c.s.nextData("") })
}

// readFirstFields processes the first line. It also processes the next line if that line shows
// whether the first line contains column names.
func (c *csv) readFirstFields(first [][]byte, next func() ([]byte, bool)) (err error) {
	c.width, c.first = len(first), c.s.line
	if c.width == 3 && bytes.HasPrefix(first[2], []byte("{")) {
		c.attribute = cmp.Or(c.o.Weight, "weight")
	}
	names := c.o.Header == HeaderYes || c.o.Header == HeaderAuto && (c.selectsByName() || c.haveNames(first))
	if err := c.findColumns(first, names); err != nil {
		return err
	}
	var second [][]byte
	if c.o.Header == HeaderAuto && !names && c.attribute == "" && !looksNumeric(first[c.columns[0]]) && !looksNumeric(first[c.columns[1]]) {
		if line, ok := next(); ok {
			if second, err = c.split(slices.Clone(line), nil); err != nil {
				return err
			}
			switch at := c.columns[2]; {
			case len(second) != c.width || c.hasWeight(first):
			case c.haveNumbers(second):
				names = true
			case c.hasWeight(second):
				if names = slices.Contains(weightNames, strings.ToLower(string(first[at]))); !names {
					return &lineError{c.first, malformed("%.40q may be the name of a column or a wrong weight; "+
						"--header yes takes the line for names, --columns %d,%d leaves weights out", first[at], c.columns[0]+1, c.columns[1]+1)}
				}
			}
		}
	}
	if c.e.file.Header = names; names {
		err = c.checkOrder(first)
	} else {
		err = c.addLine(c.first, first)
	}
	if err != nil {
		return &lineError{c.first, err}
	}
	if second != nil {
		return c.addLine(c.s.line, second)
	}
	return nil
}

// selectsByName reports whether options select a column by name.
func (c *csv) selectsByName() bool {
	selected := []string{c.o.From, c.o.To}
	if c.attribute == "" { // otherwise Weight is the name of the attribute
		selected = append(selected, c.o.Weight)
	}
	for _, column := range selected {
		if _, err := strconv.Atoi(column); column != "" && err != nil {
			return true
		}
	}
	return false
}

// haveNames reports whether the first two fields are common column names.
func (c *csv) haveNames(fields [][]byte) bool {
	return len(fields) >= 2 && slices.Contains(columnNames, strings.ToLower(string(fields[0]))) &&
		slices.Contains(columnNames, strings.ToLower(string(fields[1])))
}

// checkOrder returns an error if columns other than the first two have common names of id columns,
// unless options select columns.
func (c *csv) checkOrder(names [][]byte) error {
	if c.selectsColumns() {
		return nil
	}
	var err error
	for pair := range slices.Chunk(columnNames, 2) {
		indexOf := func(i int) int {
			return slices.IndexFunc(names, func(name []byte) bool { return strings.EqualFold(string(name), pair[i]) })
		}
		switch from, to := indexOf(0), indexOf(1); {
		case from == 0 && to == 1:
			return nil
		case from >= 0 && to >= 0:
			err = malformed("an edge is columns 1 and 2, but %s and %s are columns %d and %d; set --columns FROM,TO or FROM,TO,WEIGHT",
				names[from], names[to], from+1, to+1)
		}
	}
	return err
}

func (c *csv) selectsColumns() bool { return c.o.From != "" || c.o.To != "" || c.o.Weight != "" }

// hasWeight reports whether the weight column of a line is a number.
func (c *csv) hasWeight(fields [][]byte) bool {
	if c.columns[2] == noColumn || c.attribute != "" {
		return false
	}
	_, err := weight(fields[c.columns[2]])
	return err == nil
}

// haveNumbers reports whether both ids of a line are numbers.
func (c *csv) haveNumbers(fields [][]byte) bool {
	_, a := number(fields[c.columns[0]])
	_, b := number(fields[c.columns[1]])
	return a && b
}

// findColumns finds the columns that options select. By default the first two columns are ids, and
// the last of three columns is the weight.
func (c *csv) findColumns(first [][]byte, names bool) error {
	selected := c.selectsColumns()
	if c.width > 3 && !selected {
		return malformed("the line has %d columns, but an edge has two ids and at most a weight; set --columns FROM,TO,WEIGHT%s", c.width, c.adjListHint())
	}
	for i, want := range []string{c.o.From, c.o.To, c.o.Weight} {
		at, err := strconv.Atoi(want)
		switch {
		case i == 2 && c.attribute != "" && (want != "" || !selected):
			at = 2
		case want == "" && i == 2:
			if at = noColumn; c.width == 3 && !selected {
				at = 2
			}
		case want == "":
			at = i
		case err == nil:
			at--
		case !names:
			return malformed("column %.40q was requested, but the columns have no names", want)
		default:
			isWanted := func(f []byte) bool { return string(f) == want }
			if at = slices.IndexFunc(first, isWanted); at < 0 {
				return malformed("no column is called %.40q", want)
			}
			if slices.ContainsFunc(first[at+1:], isWanted) {
				return malformed("several columns are called %.40q; --columns takes their numbers, too", want)
			}
		}
		if at >= len(first) || at < 0 && (want != "" || i < 2) {
			return malformed("column %d was requested, but there are %d: is %.40q the separator?",
				at+1, len(first), c.separatorName())
		}
		c.columns[i] = at
	}
	if c.columns[0] == c.columns[1] {
		return &lineError{c.first, optionsError("From and To are one column, %d", c.columns[0]+1)}
	}
	return nil
}

func (c *csv) separatorName() string {
	if c.separator == 0 {
		return "white space"
	}
	return string(c.separator)
}

// addLine adds the edge of a line.
func (c *csv) addLine(line int, fields [][]byte) error {
	if len(fields) != c.width {
		return malformed("the line has %d columns, but line %d has %d%s", len(fields), c.first,
			c.width, c.adjListHint())
	}
	var w []byte
	weighted := c.columns[2] != noColumn
	if weighted {
		w = fields[c.columns[2]]
	}
	if weighted && c.attribute != "" {
		var err error
		if w, err = attribute(w, c.attribute, c.o.Weight != ""); err != nil {
			return err
		}
		weighted = w != nil
	}
	switch {
	case !weighted && c.attribute != "" && c.o.Weight != "":
		return malformed("the edge has no attribute %q", c.attribute)
	case !c.begun:
		c.weighted = weighted
	case c.weighted && !weighted:
		return malformed("the edge has no attribute %q, but those before have one", c.attribute)
	case !c.weighted && weighted:
		return malformed("the edge has an attribute %q, but those before have none", c.attribute)
	}
	if weighted {
		if _, err := weight(w); err != nil && c.o.Weight == "" {
			return malformed("%v; use --columns %d,%d to leave it out", err, c.columns[0]+1, c.columns[1]+1)
		}
	}
	return c.addEdge(line, fields[c.columns[0]], fields[c.columns[1]], w)
}

// adjListHint returns the part of an error message that proposes AdjList for lines with more than
// two ids.
func (c *csv) adjListHint() string {
	if c.o.Format == EdgeList {
		return "; --format adjlist reads the neighbors of the first id"
	}
	return ""
}

// split splits a line into fields and unquotes them in place.
func (c *csv) split(line []byte, into [][]byte) ([][]byte, error) {
	if c.separator == 0 {
		return fieldsOf(line, into), nil
	}
	into = into[:0]
	for {
		line = bytes.TrimLeft(line, " ")
		// The attributes of networkx are one field.
		if len(into) == 2 && len(line) > 0 && line[0] == '{' {
			return append(into, bytes.TrimSpace(line)), nil
		}
		if len(line) > 0 && line[0] == '"' {
			field, rest, ok := unquote(line[1:])
			rest = bytes.TrimLeft(rest, " ")
			if !ok || len(rest) > 0 && rest[0] != c.separator {
				return nil, malformed("column %d is not quoted correctly", len(into)+1)
			}
			into = append(into, field)
			if len(rest) == 0 {
				return into, nil
			}
			line = rest[1:]
			continue
		}
		field, rest, more := bytes.Cut(line, []byte{c.separator})
		into = append(into, bytes.TrimSpace(field))
		if line = rest; !more {
			return into, nil
		}
	}
}

// unquote returns the text before the closing quote, with each doubled quote as one, and the text
// after the closing quote.
func unquote(b []byte) (field, rest []byte, ok bool) {
	to := 0
	for i := 0; i < len(b); i++ {
		if b[i] == '"' {
			if i+1 == len(b) || b[i+1] != '"' {
				return b[:to], b[i+1:], true
			}
			i++
		}
		b[to] = b[i]
		to++
	}
	return nil, nil, false
}

func optionsError(format string, args ...any) error {
	return &wrongOptions{malformed(format, args...).Error()}
}

type wrongOptions struct{ text string }

func (w *wrongOptions) Error() string        { return w.text }
func (w *wrongOptions) Is(target error) bool { return target == weft.ErrOptions }
