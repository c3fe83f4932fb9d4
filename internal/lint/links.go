package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Patterns of Markdown: a link or image, a heading, and a fenced block.
var (
	link    = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// links requires the targets of Markdown links in the repository to exist: files, directories, and
// headings.
func links(t *Tree) (found []string) {
	for _, name := range t.files {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(t.read(name), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") { // https, mailto
				continue
			}
			page := name
			if target != "" {
				page = path.Join(path.Dir(name), target)
			}
			switch {
			case !t.leads(page):
				found = append(found, fmt.Sprintf("%s: links to %s, which is not there", name, m[1]))
			case anchor != "" && path.Ext(page) == ".md" && !slices.Contains(anchors(t.read(page)), anchor):
				found = append(found, fmt.Sprintf("%s: links to %s, which has no such heading", name, m[1]))
			}
		}
	}
	return found
}

func (t *Tree) leads(to string) bool {
	if _, there := slices.BinarySearch(t.files, to); there {
		return true
	}
	i, _ := slices.BinarySearch(t.files, to+"/")
	return to == "." || i < len(t.files) && strings.HasPrefix(t.files[i], to+"/")
}

// anchors returns the anchors that GitHub generates for a page's headings.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return names
}
